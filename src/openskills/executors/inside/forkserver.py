"""A small program that keeps an interpreter with modules loaded, and gives every command a copy of it.

It runs inside the sandbox of one session, in the interpreter of a skill (`warm_protocol.server_argv`), so it imports
nothing of ours; its parts (`warm.PARTS`) are put into one namespace. On descriptor 0 it has a connection on which it
speaks the protocol of `keeper.py` (start, signal, release; started, failed, exited), after a `hello` that says whether
it can serve.

For each command there are two processes. The *leader* adopts orphans, so that all descendants of a command are below
it, and ends them when the command ends or when this program is gone. The *run* makes itself look like a cold start
(`coldstart.py`) and returns to the bottom of the stack, where the command's code is executed. Both are made ahead of
time.

What would not be the same as a cold start is refused before it has begun (`failed`), and can be started cold.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # At run time all parts are in one namespace.
    from openskills.executors.inside.forkleader import (  # noqa: TC004
        Start,
        Work,
        adopt_orphans,
        end_children,
        fork,
        lead,
        receive,
        send,
    )

_PR_SET_DUMPABLE = 4
_QUIET = 20  # milliseconds
_REFUSED = 125  # ECANCELED
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)


def serve(preload: tuple[str, ...], start: Start) -> Work:
    """Load the modules, say hello, and work until the host has gone; returns only in a run, with what it is to do."""
    control = socket.socket(fileno=os.dup(0))
    refused = start.load(preload)
    try:
        send(control, {"event": "hello", "refused": refused})
    except OSError:
        os._exit(0)
    if refused:
        os._exit(0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # Commands of one session share a user: none of them is to look into the memory of what forks the next.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    adopt_orphans()
    gc.collect()
    # The collector would touch every object, and so copy every page into each run.
    gc.freeze()
    return _Server(control, start).serve()


class _Pair:
    """A leader and the run below it; `watch` leads to the one, `talk` to the other."""

    def __init__(self, leader: int, watch: socket.socket, talk: socket.socket) -> None:
        self.leader = leader
        self.watch = watch
        self.talk: socket.socket | None = talk
        self.identity: Any = None
        self.started = False


class _Server:
    def __init__(self, control: socket.socket, start: Start) -> None:
        self._control = control
        self._cold = start
        self._pairs: list[_Pair] = []
        self._spare: _Pair | None = None
        self._known_as: int | None = None
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> Work:
        """Work until the host has gone, and end the process; returns only in a run, with what it is to do."""
        try:
            while True:
                # The next command gets its process ahead of time, but not while the last one needs the processor.
                if self._spare is None and not self._poll.poll(_QUIET if self._pairs else 0):
                    work = self._make_spare()
                    if work is not None:
                        return work
                # One at a time: what it leads to may close others, and give their numbers to new ones.
                descriptor, _ = self._poll.poll()[0]
                if descriptor != self._control.fileno():
                    self._hear(descriptor)
                    continue
                work = self._act(*receive(self._control))
                if work is not None:
                    return work
        except (EOFError, OSError):
            # What a leader looks after becomes ours when it is killed.
            end_children([])
            os._exit(0)

    def _make_spare(self) -> Work | None:
        watch, their_watch = socket.socketpair()
        talk, their_talk = socket.socketpair()
        with their_watch, their_talk:
            try:
                leader = fork()
            except OSError:
                # There are as many processes as there may be; the next command starts cold.
                watch.close()
                talk.close()
                return None
            pair = self._spare = _Pair(leader, watch, talk)
            self._pairs.append(pair)
            if leader == 0:
                self._let_go()
                theirs = (socket.socket(fileno=their_watch.detach()), socket.socket(fileno=their_talk.detach()))
                return lead(*theirs, self._cold)
        self._poll.register(watch, select.POLLIN)
        self._poll.register(talk, select.POLLIN)
        return None

    def _let_go(self) -> None:
        """In a leader: these belong to somebody else, and are not to be closed when others have their numbers."""
        self._control.detach()
        for pair in self._pairs:
            pair.watch.detach()
            if pair.talk is not None:
                pair.talk.detach()
        self._pairs.clear()

    def _act(self, message: dict[str, Any], descriptors: list[int]) -> Work | None:
        if message["op"] == "known_as":
            self._known_as = None if message["pid"] == os.getpid() else message["pid"]
        elif message["op"] == "start":
            if self._spare is None:
                work = self._make_spare()
                if work is not None:
                    return work
            self._start(message, descriptors)
        else:
            for pair in self._pairs:
                if pair.identity == message["id"]:
                    self._pass_on(pair, message)
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        pair, self._spare = self._spare, None
        if pair is None or pair.talk is None:
            self._refuse(message["id"], "there can be no more processes")
            return
        try:
            send(pair.talk, message, descriptors)
        except OSError:
            self._refuse(message["id"], "its process was ended")
            return
        # While the run takes its shape.
        changed = self._cold.changed()
        if changed:
            self._refuse(message["id"], changed)
            self._stop_talking(pair)
        else:
            pair.identity = message["id"]

    def _refuse(self, identity: Any, why: str) -> None:
        send(self._control, {"event": "failed", "id": identity, "errno": _REFUSED, "what": why})

    def _pass_on(self, pair: _Pair, message: dict[str, Any]) -> None:
        try:
            if message["op"] == "signal":
                pair.watch.send(bytes([message["number"]]))
            elif message["op"] == "release" and pair.talk is not None:
                pair.talk.send(b"!")
        except OSError:
            return  # It has ended; its leader says so, or its death does.

    def _hear(self, descriptor: int) -> None:
        for pair in self._pairs:
            if descriptor == pair.watch.fileno():
                self._hear_leader(pair)
                return
            if pair.talk is not None and descriptor == pair.talk.fileno():
                self._hear_run(pair, pair.talk)
                return

    def _hear_run(self, pair: _Pair, talk: socket.socket) -> None:
        try:
            answer, _ = receive(talk)
        except (EOFError, OSError):
            self._stop_talking(pair)
            answer = {"refused": "its process was ended"}
        if pair.identity is None or pair.started:
            return
        if "refused" in answer:
            self._refuse(pair.identity, str(answer["refused"]))
            pair.identity = None
            return
        pair.started = True
        send(self._control, {"event": "started", "id": pair.identity, "pid": self._known_as or pair.leader})

    def _hear_leader(self, pair: _Pair) -> None:
        try:
            report, _ = receive(pair.watch)
        except (EOFError, OSError):
            # Somebody killed it; what it looked after has become ours.
            report = {"status": -signal.SIGKILL, "cpu_ms": 0, "clean": False}
        if report["clean"] is False:
            self._forget(pair)
            report["clean"] = end_children([other.leader for other in self._pairs])
        if pair.identity is not None and not pair.started:
            self._refuse(pair.identity, "its process was ended")
        elif pair.identity is not None:
            send(self._control, {"event": "exited", "id": pair.identity, "was_ready": True, **report})
        # Last, because the end of a process takes its time.
        self._forget(pair)

    def _stop_talking(self, pair: _Pair) -> None:
        """A run that is not told to begin ends when nobody can tell it."""
        if pair.talk is not None:
            self._poll.unregister(pair.talk)
            pair.talk.close()
            pair.talk = None

    def _forget(self, pair: _Pair) -> None:
        if pair not in self._pairs:
            return
        self._pairs.remove(pair)
        if self._spare is pair:
            self._spare = None
        self._stop_talking(pair)
        self._poll.unregister(pair.watch)
        pair.watch.close()
        os.waitpid(pair.leader, 0)
