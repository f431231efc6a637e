"""What a host is compared with, as programs: `host_others.py spawn|route|model PORT SCRIPT`.

`spawn` starts an interpreter for each call, twice as many at a time as there are processors. `route` is a bare route of
FastAPI that reads the body itself and does the same as the skill, `model` the same with a model of Pydantic.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

PATH = "/skills/echo:invoke"


class Input(BaseModel):
    """What the skill takes."""

    text: str


class Body(BaseModel):
    """What a caller sends."""

    input: Input


def echoed(text: str) -> dict[str, Any]:
    """What the skill answers."""
    return {"success": True, "skill_id": "echo", "data": {"echoed": text}, "error": None}


def spawning(script: str) -> Callable[[Request], Awaitable[JSONResponse]]:
    """An interpreter for each call, with the tools of the standard library."""
    turn = asyncio.Semaphore(2 * (os.cpu_count() or 1))
    pipe = asyncio.subprocess.PIPE

    async def invoke(request: Request) -> JSONResponse:
        body = await request.body()
        json.loads(body)
        async with turn:
            child = await asyncio.create_subprocess_exec(sys.executable, script, stdin=pipe, stdout=pipe, stderr=pipe)
            stdout, _ = await child.communicate(body)
        return JSONResponse(json.loads(stdout))

    return invoke


async def bare(request: Request) -> JSONResponse:
    """The body read by hand."""
    return JSONResponse(echoed(json.loads(await request.body())["input"]["text"]))


async def modelled(body: Body) -> dict[str, Any]:
    """The body read by Pydantic."""
    return echoed(body.input.text)


def main(kind: str, port: str, script: str) -> None:
    """Serve until somebody ends it."""
    app = FastAPI()
    handlers: dict[str, Callable[..., Any]] = {"spawn": spawning(script), "route": bare, "model": modelled}
    app.post(PATH, response_model=None)(handlers[kind])
    uvicorn.run(app, port=int(port), log_level="warning", access_log=False, loop="uvloop", http="httptools")


if __name__ == "__main__":
    main(*sys.argv[1:4])
