"""A button that acts once: a late click, a refusal, a fault, and what it says afterwards."""

from collections.abc import Callable, Sequence

import pytest
from streamlit.testing.v1 import AppTest

from data.errors import ConflictError
from ui.widgets.once import Done

pytestmark = pytest.mark.usefixtures("quick_pages")


def drawn_with(act: Callable[[], Done], switches: Sequence[bool] = (False,)) -> AppTest:
    """The button is switched off while the first of `switches` says so."""

    def script(act: "Callable[[], Done]", switches: "Sequence[bool]") -> None:
        import streamlit as st

        from ui.widgets.once import act_once

        act_once(st.button, "Start", act, key="start", disabled=switches[0])

    return AppTest.from_function(script, args=(act, switches)).run()


def words(drawn: AppTest) -> str:
    return "".join(element.proto.body for element in drawn.get("html"))


def test_a_click_that_comes_late_gets_what_came_of_the_first_and_does_nothing() -> None:
    acts: list[int] = []

    def act() -> Done:
        acts.append(1)
        return Done(f"done {len(acts)}")

    drawn = drawn_with(act)
    as_it_was = drawn._tree
    drawn.button[0].click().run()
    assert "done 1" in words(drawn)
    assert "done 1" not in words(drawn.run())

    drawn._tree = as_it_was  # the browser has not drawn the answer yet, and the button is clicked again
    drawn.run()

    assert "done 1" in words(drawn)
    assert acts == [1]


def test_a_button_that_is_drawn_anew_acts_anew() -> None:
    acts: list[int] = []

    def act() -> Done:
        acts.append(1)
        return Done(f"done {len(acts)}")

    drawn = drawn_with(act)
    drawn.button[0].click().run()

    drawn.button[0].click().run()

    assert "done 2" in words(drawn)


def test_a_refusal_stands_below_the_button_until_the_next_drawing() -> None:
    def act() -> Done:
        raise ConflictError("it is being trained already")

    drawn = drawn_with(act)

    drawn.button[0].click().run()

    assert not drawn.exception
    assert "it is being trained already" in words(drawn)
    assert "already" not in words(drawn.run())


def test_after_a_fault_of_ours_the_next_drawing_does_not_try_again() -> None:
    acts: list[int] = []

    def act() -> Done:
        acts.append(1)
        raise ZeroDivisionError

    drawn = drawn_with(act)
    drawn.button[0].click().run()
    assert drawn.exception

    drawn.run()

    assert acts == [1]
    assert not drawn.exception


def test_a_click_on_what_has_been_switched_off_meanwhile_does_nothing() -> None:
    acts: list[int] = []

    def act() -> Done:
        acts.append(1)
        return Done("done")

    is_off = [False]
    drawn = drawn_with(act, is_off)
    is_off[0] = True

    drawn.button[0].click().run()

    assert acts == []
    assert drawn.run().button[0].disabled
