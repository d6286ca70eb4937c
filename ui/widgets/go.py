"""Going from one page to another: a place that somebody is sent to stays so until they are there.

Streamlit stops the run of the script that sends them as soon as another click arrives, wherever it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import streamlit as st
from streamlit.navigation.page import StreamlitPage

_WAY: Final = "sd_way"


class Place(NamedTuple):
    """A page by its title, and what stands in its address."""

    title: str
    query: Mapping[str, str]


@dataclass(slots=True)
class Way:
    """Of one session: the pages of the person's role, and where they are being sent."""

    pages: Mapping[str, StreamlitPage] = field(default_factory=dict)
    to: Place | None = None

    def head_for(self, place: Place) -> bool:
        """Whether the person's role has such a page. The next run that calls `follow` or `arrive` goes there."""
        if place.title not in self.pages:
            return False
        self.to = place
        return True

    def follow(self) -> None:
        """Ends this run where there is a place to go to."""
        if self.to is not None:
            st.switch_page(self.pages[self.to.title], query_params=self.to.query)


def way() -> Way:
    """This session's."""
    found: Way = st.session_state.setdefault(_WAY, Way())
    return found


def arrive(pages: Mapping[str, StreamlitPage], title: str) -> None:
    """Called by the page's script before it draws the page of that title: goes on where it is not the place."""
    present = way()
    present.pages = pages
    place = present.to
    if place is None:
        return
    is_there = place.title == title and all(st.query_params.get(name) == value for name, value in place.query.items())
    if is_there or place.title not in pages:
        present.to = None
    else:
        present.follow()


def go_to(title: str, **query: str) -> None:
    """Ends this run of the script and opens the page; stays where the person's role has no such page."""
    present = way()
    if present.head_for(Place(title, query)):
        present.follow()
