"""Going from one page to another: the pages as the navigation made them, by title."""

from collections.abc import Mapping
from typing import Final

import streamlit as st
from streamlit.navigation.page import StreamlitPage

_PAGES: Final = "sd_pages"


def remember_pages(pages: Mapping[str, StreamlitPage]) -> None:
    """Called by the page's script."""
    st.session_state[_PAGES] = pages


def go_to(title: str, **query: str) -> None:
    """Ends this run of the script and opens the page; stays where the person's role has no such page."""
    page = st.session_state.get(_PAGES, {}).get(title)
    if page is not None:
        st.switch_page(page, query_params=query)
