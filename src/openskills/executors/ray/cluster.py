"""Connection to a Ray cluster, and the actors that Ray runs for it: the directory and an agent on each node."""

import asyncio
import logging
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from openskills.arguments import check_arguments
from openskills.errors import ExecutorUnavailable, InvalidArgument, MissingExtra, SkillError
from openskills.executors.open import is_ray
from openskills.executors.ray.channel import error_from_json, error_to_json
from openskills.executors.ray.executor import RESOURCE, RETRY_PAUSE, NodeAgent, RayExecutor, RayOptions
from openskills.executors.ray.placement import LOST_FACTOR, ClusterDirectory, DirectoryClient
from openskills.settings import Settings

_DIRECTORY = "openskills-directory"
_SCAN_INTERVAL = 1.0
_PROBE_TIMEOUT = 5.0
_CONNECT_TIMEOUT, _START_TIMEOUT = 30.0, 120.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS_TYPE = 4
_CLIENT_PORT = 10001
_MAX_TRIES = 50


@check_arguments
def open_ray_executor(settings: Settings, address: str | None = None, **options: Any) -> RayExecutor:
    """The executor for a cluster at `ray://host:port` or `host:port`; None means RAY_ADDRESS, or that of this machine.

    `options` are fields of `RayOptions`. Nothing is connected before the first use. If this process is connected to Ray
    already, that cluster is used. Raises `MissingExtra` if Ray is not installed.
    """
    return _open_executor(settings, address, replace(RayOptions(executor=settings.ray_executor), **options))


def open_cluster(settings: Settings, name: str, namespace: str) -> RayExecutor:
    """The executor `name` of a cluster that drivers use already, to look at its nodes and drain them; starts nothing.

    Raises `InvalidArgument` if it is another executor, and `MissingExtra`.
    """
    if not is_ray(name):
        raise InvalidArgument("executor", f"{name!r} is not a cluster; use ray, ray:HOST:PORT or ray://HOST:PORT")
    address = name if name.startswith("ray://") else name[4:] or None
    return _open_executor(settings, address, RayOptions(namespace=namespace), must_exist=True)


def _open_executor(
    settings: Settings, address: str | None, options: RayOptions, *, must_exist: bool = False
) -> RayExecutor:
    _import_ray()
    where = address or settings.environment.get("RAY_ADDRESS") or "auto"
    return RayExecutor(settings, lambda: connect_directory(where, options, must_exist=must_exist), options)


def connect_directory(address: str, options: RayOptions, *, must_exist: bool = False) -> DirectoryClient:
    """Connect to a cluster and find its directory, or start it. Blocking. Raises `ExecutorUnavailable`."""
    ray = _import_ray()
    try:
        if not ray.is_initialized():
            # Ray Client starts a process for each driver, which takes long on a busy machine.
            timeout = _START_TIMEOUT if probe_head(address) else _CONNECT_TIMEOUT
            _initialize_ray(ray, address, options.namespace, timeout)
        if must_exist and not _has_directory(ray, options.namespace):
            raise ExecutorUnavailable(
                f"the cluster at {address!r} has no nodes of OpenSkill in the namespace {options.namespace!r}; "
                "they are started when a host or a program uses the executor `ray` for the first time"
            )
        actor = (
            ray.remote(DirectoryActor)
            .options(
                name=_DIRECTORY,
                namespace=options.namespace,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                max_restarts=-1,
                max_concurrency=1000,
            )
            .remote(asdict(options))
        )
    except ImportError:
        # Ray imports gRPC only for Ray Client.
        raise MissingExtra("ray", f"the address {address!r}") from None
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        advice = "start one with `ray start --head`, or set RAY_ADDRESS"
        raise ExecutorUnavailable(f"cannot use the Ray cluster at {address!r}: {error}; {advice}") from None
    return _RayDirectory(actor)


def probe_head(address: str) -> bool:
    """Check that something listens at `host:port` or `ray://host:port`, because Ray waits for minutes. Blocking.

    Returns whether it speaks HTTP/2 like the servers of Ray; false if they use TLS. Raises `InvalidArgument` for
    another form of address, `OSError` if nothing answers. `auto` is left to Ray.
    """
    if address == "auto":
        return False
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = parts.port or (_CLIENT_PORT if parts.scheme == "ray" else None)
    except ValueError:
        port = None
    if parts.scheme not in ("", "ray") or not parts.hostname or port is None:
        raise InvalidArgument(
            "executor", f"{address!r} is not the address of a Ray cluster; use HOST:PORT or ray://HOST:PORT"
        )
    try:
        connection = socket.create_connection((parts.hostname, port), timeout=_PROBE_TIMEOUT)
    except TimeoutError:
        raise TimeoutError(f"nothing answered within {_PROBE_TIMEOUT:g} s") from None
    with connection, suppress(OSError):
        connection.sendall(_PREFACE)
        # The first frame of a server contains its settings: three bytes of length, then the type.
        return connection.recv(4, socket.MSG_WAITALL)[3:] == bytes([_SETTINGS_TYPE])
    return False


_ATTEMPTS: dict[str, Future[None]] = {}
_ATTEMPTS_LOCK = threading.Lock()


def _initialize_ray(ray: Any, address: str, namespace: str, timeout: float) -> None:
    """Connect this process to Ray, in a thread that is left behind if Ray waits for too long. Blocking."""

    def connect(attempt: Future[None]) -> None:
        log = logging.getLogger("ray")
        level = log.level
        # Ray warns that it cannot handle signals in a thread.
        log.setLevel(logging.ERROR)
        try:
            ray.init(address=address, namespace=namespace, log_to_driver=False, configure_logging=False)
            attempt.set_result(None)
        except (ImportError, OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            attempt.set_exception(error)
        finally:
            log.setLevel(level)
            if not attempt.done():
                attempt.set_exception(RuntimeError("Ray failed while connecting; its error is on stderr"))

    with _ATTEMPTS_LOCK:
        attempt = _ATTEMPTS.get(address)
        if attempt is None or attempt.done():
            attempt = _ATTEMPTS[address] = Future()
            threading.Thread(target=connect, args=(attempt,), name="openskills-ray-init", daemon=True).start()
    try:
        attempt.result(timeout)
    except TimeoutError:
        raise TimeoutError(f"the server there did not respond as a Ray cluster within {timeout:g} s") from None


def _has_directory(ray: Any, namespace: str) -> bool:
    try:
        ray.get_actor(_DIRECTORY, namespace=namespace)
    except ValueError:
        return False
    return True


class _RayDirectory:
    """The directory in its Ray actor; implements `DirectoryClient`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """See `DirectoryClient.call`. While Ray restarts the actor, the call is repeated."""
        ray = _import_ray()
        for _ in range(_MAX_TRIES):
            try:
                reply = await self._actor.call.remote(name, arguments)
            except ray.exceptions.ActorUnavailableError:
                await asyncio.sleep(RETRY_PAUSE)
                continue
            except ray.exceptions.RayError as error:
                raise ExecutorUnavailable(f"the directory of the cluster failed: {error}") from None
            if "error" in reply:
                raise error_from_json(reply["error"])
            return reply["value"]
        raise ExecutorUnavailable("the directory of the cluster does not answer; see `ray status`")


class DirectoryActor:
    """Ray actor: the directory of a namespace. It starts an agent on each node that joins the cluster."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        restarted = _import_ray().get_runtime_context().was_current_actor_reconstructed
        lease = float(options["lease"])
        self._directory = ClusterDirectory(
            lease=lease, max_queue=int(options["max_queue"]), settle=LOST_FACTOR * lease if restarted else 0.0
        )
        self._agents: dict[str, Any] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._faults: dict[str, str] = {}
        self._scanning: asyncio.Task[None] | None = None

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a method of the directory. Errors are returned as JSON."""
        if self._scanning is None or self._scanning.done():
            self._scanning = asyncio.ensure_future(self._scan())
        if name.startswith("_"):
            return {"error": error_to_json(InvalidArgument("name", f"unknown method {name!r}"))}
        try:
            return {"value": await getattr(self._directory, name)(**arguments)}
        except SkillError as error:
            return {"error": error_to_json(error)}

    async def _scan(self) -> None:
        """Start an agent on each node that has none which reports."""
        ray = _import_ray()
        while True:
            nodes = [node for node in await asyncio.to_thread(ray.nodes) if node["Alive"]]
            # If nodes are marked for us, the others are not ours.
            marked = {node["NodeID"]: node["Resources"][RESOURCE] for node in nodes if RESOURCE in node["Resources"]}
            wanted = marked or {node["NodeID"]: self._options["max_workspaces"] for node in nodes}
            self._faults = {node: why for node, why in self._faults.items() if node in wanted}
            await self._directory.expect(nodes={node: self._faults.get(node, "") for node in wanted})
            silent = await self._directory.list_silent(nodes=list(wanted))
            for node in silent:
                if node not in self._starting or self._starting[node].done():
                    self._starting[node] = asyncio.ensure_future(self._start_agent(node, int(wanted[node])))
            await asyncio.sleep(_SCAN_INTERVAL)

    async def _start_agent(self, node: str, max_workspaces: int) -> None:
        ray = _import_ray()
        strategies = import_module("ray.util.scheduling_strategies")
        options = {**self._options, "max_workspaces": max_workspaces}
        try:
            if node not in self._agents:
                self._agents[node] = await asyncio.to_thread(
                    ray.remote(NodeActor)
                    .options(
                        name=f"openskills-node-{node}",
                        namespace=self._options["namespace"],
                        lifetime="detached",
                        get_if_exists=True,
                        num_cpus=0,
                        max_restarts=-1,
                        max_concurrency=100,
                        scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node, soft=False),
                    )
                    .remote,
                    node,
                    options,
                )
            self._faults[node] = await self._agents[node].start.remote()
        except ray.exceptions.ActorUnavailableError:
            # Ray restarts it; the next scan tries again.
            return
        except ray.exceptions.RayError as error:
            self._agents.pop(node, None)
            lines = str(error).strip().splitlines()
            self._faults[node] = f"its agent could not be started: {lines[-1] if lines else type(error).__name__}"


class NodeActor:
    """Ray actor: the agent of one node."""

    def __init__(self, node: str, options: dict[str, Any]) -> None:
        self._node = node
        self._options = RayOptions(**options)
        self._agent: NodeAgent | None = None

    async def start(self) -> str:
        """Start the agent, unless it runs; returns why that is impossible, or an empty text."""
        if self._agent is None:
            ray = _import_ray()
            actor = await asyncio.to_thread(ray.get_actor, _DIRECTORY, namespace=self._options.namespace)
            try:
                self._agent = NodeAgent(self._node, _RayDirectory(actor), Settings.from_env(), self._options)
                await self._agent.start(ray.util.get_node_ip_address())
            except (SkillError, OSError) as error:
                agent, self._agent = self._agent, None
                if agent is not None:
                    await agent.close()
                return f"its agent could not be started: {error}"
        return ""


def _import_ray() -> Any:
    try:
        return import_module("ray")
    except ModuleNotFoundError:
        raise MissingExtra("ray", "the executor `ray`") from None
