"""What more than one machine costs, measured in one run: `make bench`.

Renews its section of docs/benchmarks.md and docs/benchmarks/scale_out.svg with `--write`. Three Ray nodes on this
machine share its processors, so the throughput of commands that compute shows a cost and not a speed-up; that of
commands that sleep shows what more nodes give.
"""

import asyncio
import itertools
import os
import secrets
import shutil
import signal
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from charts import Chart, Line
from memory import descendants, taken_by
from report import Bar, Target
from running_bench import Ground, command_of, ground, run_of, write_skill
from running_part import TINY, NotMeasured, Part, Surroundings, plain_table, raw_series, series_table
from sampling import Series, Way, in_turns, timed
from suite import Suite, main

from openskills.artifacts.store import Scope
from openskills.errors import ExecutorUnavailable, MissingExtra, SkillError
from openskills.executors import Command, RunRequest, open_command_runner, open_executor
from openskills.host.auth import Principal
from openskills.host.database import Database
from openskills.host.history import History, RunRecord, new_run_id
from openskills.host.idempotency import IdempotencyClaim, IdempotencyStore
from openskills.host.service import InvokeRequest
from openskills.postgres import PostgresUrl
from openskills.settings import Settings

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.servers.postgres import running, server_path

NODES = 3
DIRECT, RAY = "sandbox", "the same sandbox on a Ray node"
MAX_EXTRA = 3.0
"""Milliseconds that a command through Ray may cost more."""
SLEEP = 0.25
SLEEPERS = 4
"""How many sleeping commands a node may run at a time."""

_COMMAND = """
`true` in a warm workspace with a staged skill of 20 files: `CommandRunner.run` with the executor `sandbox` of this
machine, and with the executor `ray` whose node uses the same sandbox. "Executor only" leaves out policy and audit
log.
"""
_NODES = f"""
Commands per second with 1, 2 and {NODES} nodes, all on this machine. `true` needs the processors, which the nodes
share, so more nodes cannot be faster here. `sleep {SLEEP}` represents skills that wait for something else; each node
may run {SLEEPERS} of them at a time, so its growth shows how placement and limits scale.
"""
_WORKSPACES = """
Workspaces opened by 16 concurrent tasks, each with one small file; one command runs in every tenth of them. The last
row is the number of workspaces on the fullest and the emptiest node.
"""
_RECOVERY = """
A node is killed (SIGKILL of its processes) while one of its workspaces is in use. Measured is the time from the kill
until the next command of that workspace has run on another node, with the files of the last checkpoint. Most of it is
the lease: a node that cannot reach the cluster stops running commands before its workspaces are opened elsewhere.
"""
_DATABASE = """
The database of a host as an SQLite file and as PostgreSQL on this machine: claiming an `Idempotency-Key` and storing
its response, and writing 1,000 rows of the history. PostgreSQL runs without `fsync` here; a real disk adds to its
times.
"""


@dataclass(frozen=True)
class BenchCluster:
    """A Ray cluster on this machine."""

    settings: Settings
    cluster: Any
    nodes: Sequence[Any]
    state_dir: Path

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncGenerator[Ground]:
        """The executor `ray` for it, with agents of its own."""
        namespace = f"bench-{next(_NUMBERS)}"
        state = self.state_dir / namespace
        state.mkdir()
        state.chmod(0o755)
        executor = open_executor(
            f"ray:{self.cluster.address}",
            self.settings,
            namespace=namespace,
            state_dir=state,
            host="127.0.0.1",
            **options,
        )
        try:
            await executor.check()
            yield Ground(executor, self.settings)
        finally:
            await executor.close()


_NUMBERS = itertools.count()


@asynccontextmanager
async def run_cluster(scratch: Path, nodes: int, **variables: str) -> AsyncGenerator[BenchCluster]:
    """Ray with a head that holds no workspaces and so many nodes. Raises `NotMeasured` without Ray."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError as error:
        raise NotMeasured(f"Ray is not installed ({error})") from None
    home = scratch / "home-ray"
    home.mkdir(exist_ok=True)
    settings = Settings.from_env({"HOME": str(home), "PATH": os.defpath, **variables})
    small: dict[str, Any] = {"object_store_memory": 80 * 1024**2}
    # Ray sets signal handlers, which only the main thread may do.
    cluster = cast("Any", Cluster)(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small}
    )
    try:
        added = [cluster.add_node(num_cpus=2, resources={"openskills": 1000}, **small) for _ in range(nodes)]
        yield BenchCluster(settings, cluster, added, scratch)
    finally:
        cast("Any", ray).shutdown()
        cluster.shutdown()


async def measure_command(at: Surroundings) -> Part:
    """One small command, with the executor of this machine and through Ray."""
    skill = write_skill(at.scratch / "skills", 20)
    only = ", executor only"
    try:
        async with (
            ground("sandbox", at.scratch) as here,
            run_cluster(at.scratch, 1) as cluster,
            cluster.open() as there,
        ):
            at.say("running `true` directly and through Ray")
            direct, remote = await here.bench(skill), await there.bench(skill)
            ways = {
                DIRECT: run_of(direct, ["true"]),
                RAY: run_of(remote, ["true"]),
                f"{DIRECT}{only}": command_of(direct, ["true"]),
                f"{RAY}{only}": command_of(remote, ["true"]),
            }
            series = await in_turns(ways, at.extent.many)
            await direct.close()
            await remote.close()
    except (ExecutorUnavailable, MissingExtra) as reason:
        raise NotMeasured(str(reason)) from None
    extra = (series[RAY].median - series[DIRECT].median) * 1000
    target = Target(
        "a command through Ray: overhead over the same executor", extra, MAX_EXTRA, at_least=False, unit="ms"
    )
    bars = [Bar(name, one.median) for name, one in series.items()]
    table = series_table(series, base=DIRECT)
    return Part("A command through Ray", _COMMAND, [target], table, bars, (), raw_series(series))


async def measure_nodes(at: Surroundings) -> Part:
    """Throughput with 1 to 3 nodes."""
    seconds = 0.6 if at.extent == TINY else 4.0
    rates: dict[str, list[tuple[float, float]]] = {"`true`": [], f"`sleep {SLEEP}`": []}
    for count in range(1, NODES + 1):
        at.say(f"commands per second with {count} nodes")
        async with run_cluster(at.scratch, count) as cluster:
            async with cluster.open() as there:
                rates["`true`"].append((count, await _count_rate(there, ("true",), 4 * count, seconds)))
            async with cluster.open(max_commands=SLEEPERS) as there:
                argv = ("sleep", str(SLEEP))
                # More callers than there is room for, so that every node always has its share.
                callers = 2 * SLEEPERS * count
                rates[f"`sleep {SLEEP}`"].append((count, await _count_rate(there, argv, callers, seconds)))
    slope = [rate for _, rate in rates[f"`sleep {SLEEP}`"]]
    busy = [rate for _, rate in rates["`true`"]]
    targets = [
        Target(f"sleeping commands per second: {NODES} nodes relative to one", slope[-1] / slope[0], 0.8 * NODES),
        Target(
            f"computing commands per second on shared processors: {NODES} nodes relative to one",
            busy[-1] / busy[0],
            0.7,
        ),
    ]
    rows = [[name, *(f"{rate:.1f}" for _, rate in found)] for name, found in rates.items()]
    table = plain_table(["commands per second", "1 node", *(f"{count} nodes" for count in range(2, NODES + 1))], rows)
    chart = Chart(
        "nodes", "Commands per second", "nodes", "commands per second", [Line(n, p) for n, p in rates.items()]
    )
    return Part("More nodes", _NODES, targets, table, (), (), rates, [chart])


async def _count_rate(there: Ground, argv: Sequence[str], callers: int, seconds: float) -> float:
    """Commands per second of so many callers, each with a workspace of its own."""
    benches = [await there.bench() for _ in range(callers)]
    done = 0
    until = 0.0

    async def work(bench: Any) -> None:
        nonlocal done
        while time.monotonic() < until:
            result = await bench.run(RunRequest(tuple(argv)))
            if result.exit_code:
                raise RuntimeError(f"{argv} failed: {result.stderr}")
            done += 1

    for bench in benches:
        await bench.run(RunRequest(("true",)))
    began = time.monotonic()
    until = began + seconds
    await asyncio.gather(*map(work, benches))
    taken = time.monotonic() - began
    for bench in benches:
        await bench.close()
    return done / taken


async def measure_workspaces(at: Surroundings) -> Part:
    """Many workspaces on three nodes."""
    count = 12 if at.extent == TINY else 1000
    numbers = iter(range(count))
    waiting: list[float] = []
    failed: list[str] = []
    async with run_cluster(at.scratch, NODES) as cluster, cluster.open() as there:
        at.say(f"opening {count} workspaces on {NODES} nodes")
        before = _measure_memory(cluster)

        async def work() -> None:
            for number in numbers:
                began = time.perf_counter()
                try:
                    workspace = await there.executor.open(f"workspace-{number}")
                    await workspace.write("work/note.txt", str(number).encode())
                    waiting.append(time.perf_counter() - began)
                    if number % 10 == 0:
                        ended = await (await workspace.start(Command(("cat", "work/note.txt"), cwd="."))).wait()
                        if ended.stdout.text() != str(number):
                            failed.append(f"{number}: {ended.stdout.text()!r} {ended.stderr.text()!r}")
                except SkillError as error:
                    failed.append(f"{number}: {error}")

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(16)))
        taken = time.perf_counter() - began
        memory = (_measure_memory(cluster) - before) / count
        report = await cast("Any", there.executor).status()
        loads = sorted(int(node["workspaces"]) for node in report["nodes"] if node["workspaces"])
    if failed:
        raise RuntimeError(f"{len(failed)} of {count} workspaces failed, such as {failed[0]}")
    rows = [
        ["workspaces", f"{count:,}"],
        ["opened per second", f"{count / taken:.0f}"],
        ["median of opening one", f"{statistics.median(waiting) * 1000:.1f} ms"],
        ["memory of the nodes per workspace", f"{memory / 1024:.0f} KiB"],
        ["fullest and emptiest node", f"{loads[-1]} and {loads[0]}"],
    ]
    spread = loads[-1] / loads[0]
    target = Target("workspaces on three nodes: fullest relative to emptiest", spread, 1.5, at_least=False, digits=2)
    return Part(
        f"{count:,} workspaces on three nodes",
        _WORKSPACES,
        [target],
        plain_table(["", ""], rows),
        raw={"seconds": taken, "loads": loads, "bytes": memory},
    )


def _measure_memory(cluster: BenchCluster) -> int:
    """The memory of everything that nodes run."""
    return sum(taken_by(pid).size for node in cluster.nodes for pid in _list_roots(node))


def _list_roots(node: Any) -> list[int]:
    """The processes that were started for a node: its raylet and agents."""
    return [started.process.pid for started in itertools.chain.from_iterable(node.all_processes.values())]


async def measure_recovery(at: Surroundings) -> Part:
    """How long a workspace is gone when its node is killed."""
    rounds = 1 if at.extent == TINY else 3
    taken: list[float] = []
    storage = at.scratch / "storage"
    storage.mkdir()
    for number in range(rounds):
        at.say(f"killing a node, {number + 1} of {rounds}")
        async with (
            run_cluster(at.scratch, NODES, OPENSKILL_STORAGE=f"file://{storage}") as cluster,
            cluster.open(checkpoint_delay=0.1) as there,
        ):
            scope = Scope("bench", "user", f"recovery{number}")
            bench = await open_command_runner(there.executor, cluster.settings, scope)
            await bench.run(RunRequest(("sh", "-c", f"echo kept > $WORK_DIR/file{number}")))
            # Saved a moment after the command.
            await asyncio.sleep(2)
            status = await cast("Any", there.executor).status()
            holder = next(one["node"] for one in status["nodes"] if one["workspaces"])
            victim = next(node for node in cluster.nodes if node.node_id == holder)
            roots = _list_roots(victim)
            processes = [*roots, *(child for pid in roots for child in descendants(pid))]
            began = time.perf_counter()
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            while True:
                try:
                    result = await bench.run(RunRequest(("sh", "-c", f"cat $WORK_DIR/file{number}")))
                except ExecutorUnavailable:
                    await asyncio.sleep(0.05)
                    continue
                if result.exit_code == 0:
                    break
            taken.append(time.perf_counter() - began)
            if "kept" not in result.stdout:
                raise RuntimeError(f"the checkpoint was not restored: {result.stdout!r}")
    median = statistics.median(taken)
    target = Target("recovery of a workspace after its node was killed", median, 30, at_least=False, unit="s")
    rows = [["median", f"{median:.1f} s"], ["longest", f"{max(taken):.1f} s"]]
    table = plain_table(["from the kill to the next result", ""], rows)
    return Part("Losing a node", _RECOVERY, [target], table, raw={"seconds": taken})


async def measure_database(at: Surroundings) -> Part:
    """The database of a host as SQLite and as PostgreSQL."""
    programs, setpriv = (shutil.which(name, path=server_path()) for name in ("postgres", "setpriv"))
    if programs is None or setpriv is None:
        raise NotMeasured("PostgreSQL is not installed")
    with running(Path(programs).resolve().parent, setpriv) as server:
        # On its own thread, because it waits for an answer of the server.
        url = await asyncio.to_thread(server.new_database)
        places = {"SQLite": at.scratch / "host.db", "PostgreSQL": PostgresUrl(url, "postgresql://127.0.0.1")}
        claims, rows = await _measure_claims(places, at.extent.many), await _measure_rows(places, at)
    table = "\n\n".join(
        [
            "**Claiming a key and storing its response**",
            series_table(claims, base="SQLite"),
            "**1,000 rows of the history**",
            series_table(rows, base="SQLite"),
        ]
    )
    extra = (claims["PostgreSQL"].median - claims["SQLite"].median) * 1000
    target = Target("an idempotent call in PostgreSQL: overhead over SQLite", extra, 10, at_least=False, unit="ms")
    raw = {"claims": raw_series(claims), "rows": raw_series(rows)}
    return Part("PostgreSQL and SQLite", _DATABASE, [target], table, (), (), raw)


async def _measure_claims(places: Mapping[str, Any], rounds: int) -> dict[str, Series]:
    async with AsyncExitStack() as stack:
        ways: dict[str, Way] = {}
        for name, place in places.items():
            database = Database(place)
            stack.push_async_callback(database.close)
            store = IdempotencyStore(database)
            stack.push_async_callback(store.close)
            ways[name] = timed(partial(_claim, store))
        return await in_turns(ways, rounds)


async def _claim(store: IdempotencyStore) -> None:
    request = InvokeRequest("bench", {}, "trace", Principal("me"), time.perf_counter(), b'{"input":{}}')
    claim = await store.begin(secrets.token_hex(8), request, skill_id="bench")
    if not isinstance(claim, IdempotencyClaim):
        raise TypeError(f"expected a claim, got {claim}")
    await store.finish(claim, 200, b'{"success":true}')


async def _measure_rows(places: Mapping[str, Any], at: Surroundings) -> dict[str, Series]:
    count = 10 if at.extent == TINY else 1000

    async def write(place: Any) -> None:
        history = History(place, journal=at.scratch / "journal")
        for _ in range(count):
            history.record(RunRecord(new_run_id(), "t", "me", "bench", "1", "cli", time.time(), 1.0, True, 200, "", 10))
        # Closing writes what is queued.
        await history.close()
        if history.lost_count:
            raise RuntimeError(f"{history.lost_count} rows were lost")

    return await in_turns({name: timed(partial(write, place)) for name, place in places.items()}, at.extent.few)


SUITE = Suite(
    "scale_out",
    "Several machines",
    __doc__,
    "A small command (median)",
    {
        "command": measure_command,
        "nodes": measure_nodes,
        "workspaces": measure_workspaces,
        "recovery": measure_recovery,
        "database": measure_database,
    },
    on_disk=True,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
