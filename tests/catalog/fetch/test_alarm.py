"""Time for a whole exchange is bounded, whoever drips."""

import socket
import threading
from typing import Any
from weakref import WeakSet

from openskills.catalog.fetch.alarm import Alarm


class Stream:
    """What an HTTP client says about a new connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def get_extra_info(self, _: str) -> Any:
        return self._connection


def test_a_thread_that_waits_for_bytes_is_woken_when_time_is_over() -> None:
    here, there = socket.socketpair()
    with here, there:
        alarm = Alarm(0.05, WeakSet())
        with alarm:
            alarm.watch("connection.connect_tcp.complete", {"return_value": Stream(here)})
            assert here.recv(1) == b""
        assert alarm.rang


def test_a_connection_made_after_time_is_over_is_cut_at_once() -> None:
    here, there = socket.socketpair()
    with here, there:
        alarm = Alarm(0, WeakSet())
        with alarm:
            while not alarm.rang:
                threading.Event().wait(0.005)
            alarm.watch("connection.start_tls.complete", {"return_value": Stream(here)})
            assert here.recv(1) == b""


def test_what_ends_in_time_is_left_alone() -> None:
    here, there = socket.socketpair()
    with here, there:
        alarm = Alarm(60, WeakSet())
        with alarm:
            alarm.watch("http11.send_request_headers.complete", {"return_value": None})
            alarm.watch("connection.connect_tcp.complete", {"return_value": Stream(here)})
        there.send(b"x")
        assert here.recv(1) == b"x"
        assert not alarm.rang
