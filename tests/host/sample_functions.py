"""Functions that are skills, for tests."""

import asyncio
import threading
import time
from typing import Any

from openskills.errors import ForbiddenPath
from openskills.host.runners.function import SkillContext

NOT_CALLABLE = 5
ended: list[str] = []


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


def fails(given: dict[str, Any]) -> dict[str, Any]:
    """Raises something else."""
    raise KeyError(given["text"])


def returns(given: dict[str, Any]) -> Any:
    """Something that is no result."""
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
