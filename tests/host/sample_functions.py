"""Functions that are skills, for tests."""

# ruff: noqa: T201 - skills print

import asyncio
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from openskills.errors import ForbiddenPath, SkillError
from openskills.host.runners.function import SkillContext

NOT_CALLABLE = 5
ended: list[str] = []
unblocked = threading.Event()


def plain(given: dict[str, Any]) -> dict[str, Any]:
    """In a thread."""
    return {"got": given, "thread": threading.current_thread().name.startswith("openskills-inproc")}


async def awaited(given: dict[str, Any], context: SkillContext) -> dict[str, Any]:
    """In the loop."""
    context.progress(percent=50)
    return {"success": True, "data": {"got": given, "trace": context.trace_id, "token": context.secrets.get("TOKEN")}}


def refuses(given: dict[str, Any]) -> dict[str, Any]:
    """Raises one of ours."""
    raise ForbiddenPath(f"{given} leaves")


class HostileType(type):
    """A type without a readable name."""

    @property
    def __name__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise SystemExit("name")


class NamelessError(Exception, metaclass=HostileType):
    """Cannot be described."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class ClasslessError(Exception):
    """Says something else about its class."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise SystemExit("class")


class MuteError(SkillError):
    """Has no message."""

    @property
    def message(self) -> str:
        raise SystemExit("message")

    @message.setter
    def message(self, message: str) -> None:
        del message


def _self_containing() -> dict[str, object]:
    found: dict[str, object] = {}
    found["itself"] = found
    return found


def _error_with_code(code: Any) -> SkillError:
    error = type("CodedError", (SkillError,), {"code": code})("coded")
    assert isinstance(error, SkillError)
    return error


ERRORS: dict[str, BaseException] = {
    "no name": NamelessError("x"),
    "no class": ClasslessError("x"),
    "no message": MuteError("x"),
    "message of another type": SkillError(5),  # pyright: ignore[reportArgumentType]
    "code that is a word": _error_with_code("abc"),
    "code that is not a status": _error_with_code(99999),
    "details that are not JSON": SkillError("x", kept=object()),
    "details with NaN": SkillError("x", kept=float("nan")),
    "details that contain themselves": SkillError("x", kept=_self_containing()),
    "surrogates": ValueError("\udcff"),
    "surrogates in ours": SkillError("\udcff"),
    "too long": SkillError("x" * 6_000_000),
    "too many details": SkillError("x", kept="y" * 6_000_000),
    "no pause": SkillError("x", retry_after="soon"),
    "endless pause": SkillError("x", retry_after=float("inf")),
}


def raises(given: dict[str, Any]) -> None:
    """Raises one of these."""
    raise ERRORS[given["kind"]]


async def raises_later(given: dict[str, Any]) -> None:
    """The same in a coroutine."""
    raise ERRORS[given["kind"]]


def closes(given: dict[str, Any]) -> dict[str, Any]:
    """Prints, and closes what it printed to."""
    print("open")
    sys.stdout.close()
    return given


def fails(given: dict[str, Any]) -> dict[str, Any]:
    """Raises something else."""
    raise KeyError(given["text"])


def returns(given: dict[str, Any]) -> Any:
    """An object that is not a result."""
    return {"list": [1], "set": {1}, "none": None}[given["kind"]]


async def endless(given: dict[str, Any]) -> None:
    """Says when it is ended."""
    try:
        await asyncio.sleep(600)
    finally:
        ended.append("endless")


async def stubborn(given: dict[str, Any]) -> dict[str, Any]:
    """Answers although it was told to end."""
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        return {"still": "here"}
    return given


async def impatient(given: dict[str, Any]) -> None:
    """Has a shorter deadline of its own."""
    raise TimeoutError(f"{given} took too long")


async def gives_up(given: dict[str, Any]) -> None:
    """Is cancelled by nobody but itself."""
    raise asyncio.CancelledError(given)


def slow(given: dict[str, Any]) -> dict[str, Any]:
    """Takes longer than anybody waits."""
    time.sleep(1)
    return {}


class Calls:
    """An object that can be called."""

    async def __call__(self, given: dict[str, Any]) -> dict[str, Any]:
        """In the loop."""
        return {"called": not given}


instance = Calls()


def talks(given: dict[str, Any]) -> dict[str, Any]:
    """Prints, and then returns or fails."""
    print("to stdout", given.get("secret", ""))
    print("to stderr", file=sys.stderr)
    if given.get("fails"):
        raise KeyError("no")
    return {"talked": True}


async def talks_async(given: dict[str, Any], context: SkillContext) -> dict[str, Any]:
    """The same, with progress in between."""
    print("first")
    context.progress(percent=50)
    await asyncio.sleep(0)
    print("last", end="")
    return {"talked": True}


def large(given: dict[str, Any]) -> dict[str, Any]:
    """A value, or text, that is as large as wanted."""
    if given.get("printed"):
        while True:
            print("x" * 1000)
    return {"text": "x" * given["size"]}


@dataclass
class Measure:
    """A result as a dataclass."""

    value: float


def number(given: dict[str, Any]) -> Any:
    """Numbers that JSON does not have, at any place."""
    nan = float("nan")
    values = {"list": [1.0, nan], "key": {nan: 1}, "infinite": float("inf"), "data": Measure(nan), "none": None}
    return {"value": values[given["kind"]]}


async def blocks(given: dict[str, Any]) -> dict[str, Any]:
    """Blocks its loop until the test says so."""
    unblocked.wait(60)
    return {"blocked": True}
