"""The same request many times at once: one after the other, and nobody waits for all that came before."""

import threading

import pytest

from commands.in_turn import InTurn
from domain import errors


def test_who_waits_longer_than_a_decision_takes_comes_again() -> None:
    turns, held, done = InTurn(wait_s=0.05), threading.Event(), threading.Event()

    def first() -> None:
        with turns.take("key"):
            held.set()
            done.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert held.wait(10)
    with pytest.raises(errors.Unavailable), turns.take("key"):
        pass
    with turns.take("another"):
        pass
    done.set()
    thread.join()
    with turns.take("key"):
        pass
