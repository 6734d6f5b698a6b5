"""The dispatcher's descriptors: numbers come again, and then mean something else."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from fabric.hosts.threads import Dispatcher

LIMIT_S = 20.0


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    """One with nothing to do."""
    dispatcher = Dispatcher(tick=lambda: 60.0, settle=lambda: None)
    yield dispatcher
    dispatcher.close(LIMIT_S)


def test_a_number_that_comes_again_is_watched_for_its_new_owner(dispatcher: Dispatcher) -> None:
    """Also if the last owner closed it without a word, and only says afterwards that it does not care any more."""
    read_fd, write_fd = os.pipe()
    first, second = threading.Event(), threading.Event()
    ready = threading.Event()
    old, new = first.set, second.set

    def scene() -> None:
        dispatcher.watch(read_fd, old)
        dispatcher.watch(read_fd, new)
        dispatcher.unwatch(read_fd, old)
        ready.set()

    dispatcher.post(scene)
    assert ready.wait(LIMIT_S)
    os.write(write_fd, b"x")
    assert second.wait(LIMIT_S)
    assert not first.is_set()
    gone = threading.Event()
    dispatcher.post(lambda: dispatcher.unwatch(read_fd, new))
    dispatcher.post(gone.set)
    assert gone.wait(LIMIT_S)
    os.close(read_fd)
    os.close(write_fd)
