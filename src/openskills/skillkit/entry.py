"""The door of a skill that is a program: one request from stdin, one Normalized Skill Result to stdout."""

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn

from openskills.errors import SkillError
from openskills.skillkit import surroundings
from openskills.skillkit.answer import Answer, Plain, answered, error_of, internal, result
from openskills.skillkit.events import Lines, emit
from openskills.skillkit.fields import arguments
from openskills.skillkit.refused import Refused
from openskills.skillkit.request import MAX_INPUT, input_of

Handler = Callable[..., Any]
DEFAULT_VERSION = "0.1.0"


def main(handler: Handler, *, version: str = DEFAULT_VERSION, exact: bool = False) -> NoReturn:
    """Serve one call with a function, and end: with 0 when it was done, with 1 when not.

    The fields of `input` are the parameters of the function, checked against its annotations. What it returns is
    `data`: a dict, or an `Answer`. `Refused` and every `SkillError` become the `error`; anything else is `INTERNAL`.
    What it prints goes to stderr as lines of JSON. With `exact` numbers with a fraction come as `Decimal`.
    """
    began = time.perf_counter()
    surroundings.begin()
    around = surroundings.Surroundings(name=_stem(handler))
    with _stdout_kept():
        answer, error = _served(handler, exact, around.debug)
    spent = (time.perf_counter() - began) * 1000
    line = result(answer, error, skill_id=around.skill_id, trace_id=around.trace_id, version=version, latency_ms=spent)
    written = _write(line)
    sys.exit(0 if written and line.startswith(b'{"success":true') else 1)


def skill(*, version: str = DEFAULT_VERSION, exact: bool = False) -> Callable[[Handler], Handler]:
    """A decorator for the last function of a script: `main` with it when the script is run, nothing when imported."""

    def decorate(handler: Handler) -> Handler:
        if handler.__module__ == "__main__":
            main(handler, version=version, exact=exact)
        return handler

    return decorate


def _served(handler: Handler, exact: bool, debug: bool) -> tuple[Answer | None, Plain | None]:
    try:
        positional, named = arguments(handler, input_of(_stdin(), exact=exact))
        return answered(handler(*positional, **named))
    except (Refused, SkillError) as error:
        return None, error_of(error)
    except SystemExit as error:
        return None, internal(f"the skill called sys.exit({error.code!r}) instead of returning")
    # Whatever a skill does, its caller gets a result.
    except Exception as error:  # noqa: BLE001
        return None, _unexpected(error, debug)


def _unexpected(error: Exception, debug: bool) -> Plain:
    import traceback

    trace = "".join(traceback.format_exception(error))
    emit("error", type=type(error).__name__, message=str(error), traceback=trace)
    said = str(error)[:1000]
    message = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return internal(message, **({"traceback": trace} if debug else {}))


def _stdin() -> bytes:
    stream: Any = sys.stdin
    if stream is None:
        return b""
    return stream.buffer.read(MAX_INPUT + 1)


@contextmanager
def _stdout_kept() -> Generator[None]:
    """Keep everybody else from stdout: what Python prints becomes events, what children print goes to stderr."""
    python_out, python_err = sys.stdout, sys.stderr
    kept = _moved_away()
    if python_out is not None:  # pyright: ignore[reportUnnecessaryComparison]
        # What was printed before this call is not for stdout either.
        python_out.flush()
    out, err = Lines(python_err, "stdout"), Lines(python_err, "stderr")
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        out.finish()
        err.finish()
        sys.stdout, sys.stderr = python_out, python_err
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _moved_away() -> int | None:
    """Let descriptor 1 lead to stderr; gives the real one, if there is one."""
    try:
        kept = os.dup(1)
    except OSError:
        return None
    try:
        os.dup2(2, 1)
    except OSError:
        # There is no stderr: then nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return kept


def _write(line: bytes) -> bool:
    stream: Any = sys.stdout
    try:
        stream.buffer.write(line)
        stream.flush()
    except (OSError, ValueError, AttributeError):
        # Nobody listens any more. Python would complain about it once more at the end.
        sys.stdout = None
        return False
    return True


def _stem(handler: Handler) -> str:
    return os.path.splitext(os.path.basename(handler.__code__.co_filename))[0]
