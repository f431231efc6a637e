"""The directory of a cluster: which nodes can take work, and which node has which workspace, with its epoch.

It runs once per cluster. A node must report every few seconds; a node that does not is lost once its lease has ended,
and its workspaces may be opened elsewhere with a higher epoch. The table is not stored: nodes report the workspaces on
their disks when they register, also after the directory was restarted.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from openskills.errors import ExecutorUnavailable, InvalidArgument, TooManyRequests
from openskills.executors.ray.channel import WorkspaceMoved

LOST_FACTOR = 1.6
"""After how many durations of a lease its node is lost. More than 1, because a node counts from an earlier moment."""
_POLL = 0.1
_PLACED_SECONDS = 10.0
_MAX_SHOWN = 10


def read_clock() -> float:
    """Seconds since the machine was started, also while it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class NodeLease:
    """The permission of a node to start commands, renewed by the directory. It counts from when renewal was asked."""

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self._until = 0.0
        self._renewed = asyncio.Event()

    @property
    def is_valid(self) -> bool:
        """Whether the directory still regards the node as the owner of its workspaces."""
        return read_clock() < self._until

    @property
    def overdue(self) -> float:
        """For how many seconds it has been expired; negative if it is valid."""
        return read_clock() - self._until

    def renew(self, asked_at: float) -> None:
        """Extend it, after stale workspaces have been dropped."""
        self._until = asked_at + self._duration
        self._renewed.set()
        self._renewed = asyncio.Event()

    async def check(self) -> None:
        """Wait for a renewal if it has expired; raises `WorkspaceMoved` if none comes within its duration."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._duration):
                while not self.is_valid:
                    await self._renewed.wait()
        if not self.is_valid:
            raise WorkspaceMoved("this node has lost contact with the cluster, so that its workspaces may have moved")


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """What a node takes on. `queue_timeout` is how long a command waits for others to end, `max_queue` how many do."""

    max_workspaces: int
    max_commands: int
    max_queue: int
    queue_timeout: float


class DirectoryClient(Protocol):
    """How drivers and nodes reach the directory."""

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a method of `ClusterDirectory`; raises its `SkillError`."""
        ...


@dataclass(slots=True)
class NodeRecord:
    """A node as the directory knows it. `reason` says why it cannot run commands; empty if it can.

    A node whose disk `is_full` keeps its workspaces and gets no new ones.
    """

    node: str
    incarnation: str
    host: str
    port: int
    token: str
    executor: str
    isolation: str
    reason: str
    max_workspaces: int
    max_commands: int
    seen_at: float
    open: dict[str, int] = field(default_factory=dict[str, int])
    placed: dict[str, float] = field(default_factory=dict[str, float])
    running: int = 0
    queued: int = 0
    is_draining: bool = False
    is_full: bool = False

    def count_open(self, now: float) -> int:
        """The number of open workspaces, with those that are about to be opened."""
        self.placed = {id_: at for id_, at in self.placed.items() if now - at < _PLACED_SECONDS}
        return len(self.open.keys() | self.placed.keys())


@dataclass(slots=True)
class WorkspacePlace:
    """The node that has a workspace."""

    node: str
    epoch: int


class ClusterDirectory:
    """The table of nodes and workspaces. `lease` is the duration of a node's lease in seconds."""

    def __init__(self, *, lease: float, max_queue: int = 256, settle: float = 0.0) -> None:
        self._lease = lease
        self._max_queue = max_queue
        self._nodes: dict[str, NodeRecord] = {}
        self._places: dict[str, WorkspacePlace] = {}
        self._expected: dict[str, str] = {}
        self._waiting = 0
        # After a restart, nodes that have workspaces have not registered yet.
        self._settled_at = read_clock() + settle

    async def register(self, *, node: str, stored: Mapping[str, int], **about: Any) -> dict[str, Any]:
        """A node starts, or the directory did; `stored` are the epochs of the workspaces on its disk."""
        old = self._nodes.get(node)
        record = NodeRecord(node=node, seen_at=read_clock(), **about)
        record.is_draining = old is not None and old.is_draining
        self._nodes[node] = record
        for id_, epoch in stored.items():
            place = self._places.get(id_)
            if place is None or place.epoch < epoch:
                self._places[id_] = WorkspacePlace(node, epoch)
        return {"stale": self._find_stale(node, stored), "lease": self._lease}

    async def renew(
        self,
        *,
        node: str,
        incarnation: str,
        opened: Mapping[str, int],
        running: int,
        queued: int,
        is_full: bool,
    ) -> dict[str, Any]:
        """A node reports, and extends its lease unless it is unknown. It drops the stale workspaces first.

        `is_full`: its disk has too little free space for more workspaces. If the node is being drained, `has_room` of
        the reply says whether another one can take its workspaces now.
        """
        record = self._nodes.get(node)
        if record is None or record.incarnation != incarnation:
            return {"unknown": True}
        stale = self._find_stale(node, opened)
        record.open = {id_: epoch for id_, epoch in opened.items() if id_ not in stale}
        record.placed = {id_: at for id_, at in record.placed.items() if id_ not in opened}
        record.running, record.queued, record.seen_at = running, queued, read_clock()
        record.is_full = is_full
        has_room = record.is_draining and self._choose(record.seen_at) is not None
        return {"stale": stale, "draining": record.is_draining, "has_room": has_room}

    async def place(self, *, id_: str, timeout: float, move: bool = False) -> dict[str, Any]:
        """The node that has a workspace, or a new place for it.

        A workspace stays on its node unless that is lost or, with `move`, draining; then it gets a higher epoch. A new
        one goes to the node with the most room. Waits up to `timeout` seconds for room. Raises `ExecutorUnavailable`
        with the reasons if no node can run commands, `TooManyRequests` if all are full or too many wait.
        """
        deadline = read_clock() + timeout
        if (found := self._try_place(id_, move=move)) is not None:
            return found
        if self._waiting >= self._max_queue:
            raise TooManyRequests(
                f"{self._waiting} workspaces are waiting for capacity in the cluster; try again later"
            )
        self._waiting += 1
        try:
            while (found := self._try_place(id_, move=move)) is None:
                if read_clock() >= deadline:
                    raise self._explain(timeout)
                await asyncio.sleep(_POLL)
        finally:
            self._waiting -= 1
        return found

    async def expect(self, *, nodes: Mapping[str, str]) -> None:
        """The nodes that the cluster has. The text is why a node cannot report, or empty."""
        self._expected = dict(nodes)
        for node in [node for node, record in self._nodes.items() if self._is_lost(record) and node not in nodes]:
            if not any(place.node == node for place in self._places.values()):
                del self._nodes[node]

    async def list_silent(self, *, nodes: list[str]) -> list[str]:
        """Which of these nodes have not registered, or have not reported for half of a lease.

        Their agents may have crashed: restarted in time, they keep their workspaces.
        """
        now = read_clock()
        known = {node: record for node, record in self._nodes.items() if now - record.seen_at < self._lease / 2}
        return [node for node in nodes if node not in known]

    async def check(self, *, timeout: float) -> list[str]:
        """The isolation of each node that can run commands, once all nodes have reported or failed to.

        Raises `ExecutorUnavailable` with the reasons if there is none.
        """
        deadline = read_clock() + timeout
        while read_clock() < deadline and (
            not self._expected or any(not why and node not in self._nodes for node, why in self._expected.items())
        ):
            await asyncio.sleep(_POLL)
        usable = self._list_usable()
        if not usable:
            raise self._explain(timeout)
        return [record.isolation for record in usable]

    async def release(self, *, id_: str, node: str) -> None:
        """A workspace was closed; its files stay on the node."""
        if (record := self._nodes.get(node)) is not None:
            record.open.pop(id_, None)
            record.placed.pop(id_, None)

    async def find(self, *, id_: str) -> dict[str, Any] | None:
        """The node that has a workspace, even if it is lost; None for an unknown workspace."""
        place = self._places.get(id_)
        record = self._nodes.get(place.node) if place is not None else None
        if place is None or record is None:
            return None
        return {**self._describe_place(record, place), "is_lost": self._is_lost(record)}

    async def forget(self, *, id_: str, epoch: int) -> None:
        """A workspace was removed."""
        place = self._places.get(id_)
        if place is not None and place.epoch <= epoch:
            del self._places[id_]
            await self.release(id_=id_, node=place.node)

    async def drain(self, *, node: str, is_draining: bool = True) -> dict[str, Any]:
        """Give a node no new workspaces, and let its workspaces move. `node` may be the beginning of its id."""
        found = [record for id_, record in self._nodes.items() if id_.startswith(node)] if node else []
        if len(found) != 1:
            names = sorted(record.node[:12] for record in found or self._nodes.values())
            # The nearest first.
            near = get_close_matches(node[:12], names, n=_MAX_SHOWN, cutoff=0.4)
            shown = [*near, *(name for name in names if name not in near)][:_MAX_SHOWN]
            known = ", ".join([*shown, *(("...",) if len(names) > _MAX_SHOWN else ())]) or "none"
            what = f"{len(found)} nodes begin with" if found else "unknown node"
            raise InvalidArgument("node", f"{what} {node[:80]!r}; known nodes are {known}")
        found[0].is_draining = is_draining
        return self._describe_node(found[0], read_clock())

    async def report(self) -> dict[str, Any]:
        """All nodes, and the number of workspaces and of callers that wait for room."""
        now = read_clock()
        nodes = [self._describe_node(record, now) for _, record in sorted(self._nodes.items())]
        missing = {
            node: why or "it has not reported" for node, why in self._expected.items() if node not in self._nodes
        }
        return {
            "nodes": nodes,
            "missing": missing,
            "workspaces": len(self._places),
            "queue": self._waiting,
            "max_queue": self._max_queue,
        }

    def _try_place(self, id_: str, *, move: bool) -> dict[str, Any] | None:
        now = read_clock()
        place = self._places.get(id_)
        holder = self._nodes.get(place.node) if place is not None else None
        if place is None and now < self._settled_at:
            return None
        if place is not None and holder is not None and self._stays(holder, now, move=move):
            count = holder.count_open(now)
            if id_ not in holder.open and id_ not in holder.placed and count >= holder.max_workspaces:
                return None
            holder.placed[id_] = now
            return self._describe_place(holder, place)
        record = self._choose(now)
        if record is None:
            return None
        # From the clock, so that it is higher than every earlier one even if the table was lost.
        epoch = max(time.time_ns() // 1_000_000, place.epoch + 1 if place is not None else 0)
        before = "" if place is None else place.node
        self._places[id_] = WorkspacePlace(record.node, epoch)
        record.placed[id_] = now
        if holder is not None:
            holder.open.pop(id_, None)
            holder.placed.pop(id_, None)
        return {**self._describe_place(record, self._places[id_]), "moved_from": before}

    def _stays(self, holder: NodeRecord, now: float, *, move: bool) -> bool:
        if holder.reason or self._is_lost(holder):
            return False
        return not (move and holder.is_draining and self._choose(now) is not None)

    def _choose(self, now: float) -> NodeRecord | None:
        able = [
            record
            for record in self._nodes.values()
            if not record.reason
            and not record.is_draining
            and not record.is_full
            and now - record.seen_at < self._lease
            and record.count_open(now) < record.max_workspaces
        ]
        load = {id(record): record.count_open(now) / record.max_workspaces for record in able}
        return min(able, key=lambda record: (load[id(record)], record.running, record.node), default=None)

    def _list_usable(self) -> list[NodeRecord]:
        return [record for record in self._nodes.values() if not record.reason and not self._is_lost(record)]

    def _is_lost(self, record: NodeRecord) -> bool:
        return read_clock() - record.seen_at > LOST_FACTOR * self._lease

    def _find_stale(self, node: str, epochs: Mapping[str, int]) -> list[str]:
        """The workspaces that have a higher epoch or another node than this node thinks."""
        places = {id_: self._places.get(id_) for id_ in epochs}
        return [
            id_
            for id_, place in places.items()
            if place is not None and (place.epoch > epochs[id_] or (place.node != node and place.epoch >= epochs[id_]))
        ]

    def _explain(self, timeout: float) -> Exception:
        """Why there is no place."""
        now = read_clock()
        if not self._nodes and not any(self._expected.values()):
            return ExecutorUnavailable(f"no node of the cluster reported within {timeout:g} s; see the logs of Ray")
        usable = self._list_usable()
        if not usable:
            faults = {node: record.reason or "it has stopped reporting" for node, record in self._nodes.items()}
            faults |= {node: why for node, why in self._expected.items() if why and node not in faults}
            why = "; ".join(f"{node[:12]}: {fault}" for node, fault in faults.items())
            return ExecutorUnavailable(f"no node of the cluster can run commands: {why}")
        full = ", ".join(f"{one.node[:12]} {one.count_open(now)}/{one.max_workspaces}" for one in usable)
        draining, disks = sum(record.is_draining for record in usable), sum(record.is_full for record in usable)
        return TooManyRequests(
            f"no node had room for the workspace within {timeout:g} s (open workspaces: {full}; draining: {draining}; "
            f"disk full: {disks}); close sessions, add nodes, raise their limits, or free space on their disks"
        )

    def _describe_place(self, record: NodeRecord, place: WorkspacePlace) -> dict[str, Any]:
        address = {"node": record.node, "host": record.host, "port": record.port, "token": record.token}
        return {**address, "epoch": place.epoch, "moved_from": "", "lease": self._lease}

    def _describe_node(self, record: NodeRecord, now: float) -> dict[str, Any]:
        """A node without its token."""
        return {
            "node": record.node,
            "address": f"{record.host}:{record.port}",
            "executor": record.executor,
            "isolation": record.isolation,
            "reason": record.reason,
            "is_lost": self._is_lost(record),
            "is_draining": record.is_draining,
            "is_full": record.is_full,
            "workspaces": record.count_open(now),
            "max_workspaces": record.max_workspaces,
            "commands": record.running,
            "max_commands": record.max_commands,
            "queued_commands": record.queued,
            "stored_workspaces": sum(place.node == record.node for place in self._places.values()),
            "seen_seconds_ago": round(now - record.seen_at, 3),
        }
