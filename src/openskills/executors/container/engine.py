"""Client of a Docker-compatible engine, with translated errors; also runs one-shot containers. Blocking.

The `docker` package is only imported here, when an engine is first used.
"""

import socket
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from openskills.errors import ExecutorUnavailable, MissingExtra
from openskills.executors.container.spec import DEFAULT_PATH, ContainerImage

DEFAULT_ADDRESS: Final = "unix:///var/run/docker.sock"

_UNIX = "unix://"
_TIMEOUT = 60
_MISSING, _CONFLICT, _FAILED = 404, 409, 500
_LIMITS = {"MemoryLimit": "memory", "PidsLimit": "the number of processes", "CpuCfsQuota": "processor time"}


class ContainerEngine:
    """A connection to an engine. It may be used from several threads."""

    def __init__(self, address: str | None) -> None:
        """Connect. Raises `MissingExtra` without the `docker` package, `ExecutorUnavailable` without a response."""
        self.address = address or DEFAULT_ADDRESS
        source = "the default socket" if address is None else "from DOCKER_HOST or the option `engine`"
        hint = f"the address is {source}; start the engine, check that this user may use it (group docker), or set "
        with self._translate_errors("does not respond", f"{hint}DOCKER_HOST to another address"):
            self._api = _connect(self.address)

    def close(self) -> None:
        """Close the connection."""
        self._api.close()

    def check(self) -> None:
        """Raise `ExecutorUnavailable` if the engine cannot enforce limits; the engine itself would only warn."""
        with self._translate_errors("cannot report its capabilities"):
            info = self._api.info()
        lacking = [what for name, what in _LIMITS.items() if not info.get(name)]
        if lacking:
            raise ExecutorUnavailable(
                f"the container engine at {self.address} cannot limit {' and '.join(lacking)}; enable control groups "
                "for it, and for a rootless engine their delegation"
            )

    def find_image(self, name: str) -> ContainerImage:
        """Look up an image of the engine. Raises `ExecutorUnavailable` with instructions if it is missing."""
        try:
            with self._translate_errors(f"cannot look up the image {name!r}"):
                found = self._api.inspect_image(name)
        except ExecutorUnavailable as error:
            if _find_status(error) != _MISSING:
                raise
            raise ExecutorUnavailable(
                f"the container engine at {self.address} has no image {name!r}, and images are never pulled; run "
                f"`docker pull {name}`, or build an image with python3 (3.9 or newer) and bash"
            ) from None
        config: Mapping[str, Any] = found.get("Config") or {}
        paths = [str(line).removeprefix("PATH=") for line in config.get("Env") or () if str(line).startswith("PATH=")]
        path = paths[-1] if paths else DEFAULT_PATH
        return ContainerImage(str(found["Id"]), path, tuple(config.get("Volumes") or ()))

    def create(self, config: Mapping[str, Any]) -> str:
        """Create a container and return its id."""
        with self._translate_errors("cannot create a container", "it must share the file system of this machine"):
            return str(self._api.create_container_from_config(config)["Id"])

    def check_runtime(self, container: str, wanted: str) -> None:
        """Raise `ExecutorUnavailable` if the container has another runtime: some engines ignore the request."""
        with self._translate_errors("cannot inspect a container"):
            found = self._api.inspect_container(container)["HostConfig"].get("Runtime")
        if found != wanted:
            raise ExecutorUnavailable(f"the container engine at {self.address} uses the runtime {found}, not {wanted}")

    def start(self, container: str) -> None:
        """Start a container. Raises `ExecutorUnavailable` if its program cannot run."""
        try:
            with self._translate_errors("cannot start a container"):
                self._api.start(container)
        except ExecutorUnavailable as error:
            if '"python3"' not in error.message:
                raise
            raise ExecutorUnavailable(
                f"the container image has no python3 (3.9 or newer, and bash are required): {error.message}"
            ) from None

    def is_running(self, container: str) -> bool:
        """Whether a container is running."""
        try:
            with self._translate_errors("cannot inspect a container"):
                return bool(self._api.inspect_container(container)["State"]["Running"])
        except ExecutorUnavailable as error:
            if _find_status(error) == _MISSING:
                return False
            raise

    def remove(self, container: str) -> None:
        """Kill and remove a container with its volumes, and wait for it; does nothing if it is gone."""
        for last in (False, False, True):
            try:
                with self._translate_errors("cannot remove a container"):
                    return self._api.remove_container(container, v=True, force=True)
            except ExecutorUnavailable as error:
                if _find_status(error) == _MISSING:
                    return None
                if _find_status(error) == _CONFLICT:
                    # The engine is removing it already, because its first process has ended.
                    return self._await_removal(container)
                # Some engines fail if it ends at the same moment, and succeed on a retry.
                if last or _find_status(error) != _FAILED:
                    raise
        return None

    def list_by_label(self, label: str) -> Sequence[tuple[str, Mapping[str, str]]]:
        """The ids and labels of all containers with a label, in any state."""
        with self._translate_errors("cannot list its containers"):
            found = self._api.containers(all=True, filters={"label": [label]})
        return [(str(one["Id"]), cast("Mapping[str, str]", one.get("Labels") or {})) for one in found]

    def _await_removal(self, container: str) -> None:
        try:
            with self._translate_errors("cannot remove a container"):
                self._api.wait(container, _TIMEOUT, "removed")
        except ExecutorUnavailable as error:
            if _find_status(error) != _MISSING:
                raise

    @contextmanager
    def _translate_errors(self, what: str, hint: str = "") -> Generator[None]:
        """Translate errors of the package and its libraries to `ExecutorUnavailable` with the HTTP `status`."""
        try:
            from docker import errors
            from requests import RequestException
        except ImportError:
            raise MissingExtra("docker", "the container executor") from None
        try:
            yield
        except (errors.DockerException, RequestException, OSError) as error:
            reason = getattr(error, "explanation", None) or error
            message = f"the container engine at {self.address} {what}: {reason}{hint and '; '}{hint}"
            raise ExecutorUnavailable(message, status=getattr(error, "status_code", None)) from None


def _connect(address: str) -> Any:
    import docker

    if address.startswith(_UNIX):
        # The package would wrap the error three times, and leave the socket to the garbage collector.
        with socket.socket(socket.AF_UNIX) as attempt:
            attempt.settimeout(_TIMEOUT)
            attempt.connect(address.removeprefix(_UNIX))
    return docker.APIClient(base_url=address, version="auto", timeout=_TIMEOUT)


def _find_status(error: ExecutorUnavailable) -> object:
    return error.details.get("status")


_NAMES = {1: "stdout", 2: "stderr"}

ContainerOutputCallback = Callable[[str, bytes], bool]
"""Called with the name of a stream and its data; returns whether to continue."""


class OneShotEngine(ContainerEngine):
    """An engine that runs one-shot containers: created, attached to its three streams, and removed."""

    def run(
        self, request: Mapping[str, Any], stdin: bytes, hear: ContainerOutputCallback, began: Callable[[str], None]
    ) -> int:
        """Run a container and return its exit code, -1 if it was removed before. `began` is called with its id.

        Raises `ExecutorUnavailable` if it cannot be created or started.
        """
        container = self.create(request)
        try:
            began(container)
            with self._attach(container) as stream:
                self.start(container)
                threading.Thread(target=_write_input, args=(stream, stdin), daemon=True).start()
                if not _forward_output(stream, hear):
                    return -1
            return self._wait_for_exit(container)
        finally:
            self.remove(container)

    @contextmanager
    def _attach(self, container: str) -> Generator[socket.socket]:
        with self._translate_errors("cannot attach to a container"):
            found = self._api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        # The package returns an inner object of those that have to be closed.
        stream = cast("socket.socket", getattr(found, "_sock", found))
        response = getattr(stream, "_response", None) or getattr(found, "_response", None)
        try:
            stream.settimeout(None)
            yield stream
        finally:
            if response is not None:
                response.close()
            found.close()
            stream.close()

    def _wait_for_exit(self, container: str) -> int:
        try:
            with self._translate_errors("cannot report the exit code of a container"):
                return int(self._api.wait(container, timeout=10)["StatusCode"])
        except ExecutorUnavailable:
            return -1


def _write_input(stream: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # the container may end without reading all of it
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)


def _forward_output(stream: socket.socket, hear: ContainerOutputCallback) -> bool:
    """Forward output until the container has ended; false if the callback stopped before."""
    from docker.utils import socket as docker_socket

    frames: Iterator[tuple[int, bytes]] = cast("Any", docker_socket).frames_iter_no_tty(stream)
    # A connection that is reset has ended.
    with suppress(OSError):
        for number, data in frames:
            if number in _NAMES and not hear(_NAMES[number], data):
                return False
    return True
