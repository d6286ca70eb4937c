"""Ctrl-C and its like: once, at a safe moment, and never in the middle of stopping."""

import signal

import pytest

from ui.commands.up.interruptions import Interruptions


def test_the_first_signal_interrupts_and_later_ones_change_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interruptions():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_in_a_deferred_block_interrupts_at_its_end() -> None:
    noted = []

    def start(interruptions: Interruptions) -> None:
        with interruptions.deferred():
            signal.raise_signal(signal.SIGINT)
            noted.append("started and noted")

    with Interruptions() as interruptions, pytest.raises(KeyboardInterrupt):
        start(interruptions)

    assert noted == ["started and noted"]


def test_no_signal_interrupts_once_the_stopping_has_begun() -> None:
    with Interruptions() as interruptions:
        interruptions.hold()
        signal.raise_signal(signal.SIGINT)
        with interruptions.deferred():
            signal.raise_signal(signal.SIGTERM)
