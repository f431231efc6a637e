"""Stdin to stdout.

What the host tells a skill through the environment of its process.

The variables are a part of the contract between host and skill, and this runs in the skill's process, so they are read
here and not in `openskills.settings`, which takes longer to load than most skills take to run.

How a skill says no.

What a skill gives back, and the Normalized Skill Result around it. Pure.

What a skill shows while it works: lines of JSON on stderr, because stdout is for the one result.

The parameters of a handler as a description of its input: names, types, defaults.

Only what costs nothing at the start: `inspect` and schema libraries take longer to load than most skills take to run.

What comes on stdin, read strictly. Pure.

The door of a skill that is a program: one request from stdin, one Normalized Skill Result to stdout.
"""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, NoneType, UnionType
from typing import IO, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from openskills.errors import InvalidArgument, SkillError

DEFAULT_ROOT = "./data"
DEFAULT_TIMEOUT = 15_000
_MAX_ID_LENGTH = 200


class SkillCallContext:
    """Which call this is, where files are, and how long it may take."""

    __slots__ = ("allowed_root", "debug", "skill_id", "timeout_ms", "trace_id")

    def __init__(self, environ: Mapping[str, str] | None = None, *, name: str = "skill") -> None:
        """Read the variables; `name` is the skill's id where the host has given none."""
        env = os.environ if environ is None else environ
        self.skill_id = env.get("OPENSKILL_SKILL_ID", "")[:_MAX_ID_LENGTH] or name
        self.trace_id = env.get("OPENSKILL_TRACE_ID", "")[:_MAX_ID_LENGTH] or os.urandom(16).hex()
        self.allowed_root = env.get("OPENSKILL_ALLOWED_ROOT") or DEFAULT_ROOT
        self.debug = env.get("OPENSKILL_DEBUG", "0") not in ("", "0", "false")
        given = env.get("OPENSKILL_TIMEOUT_MS", "")
        self.timeout_ms = int(given) if given.isdecimal() and int(given) else DEFAULT_TIMEOUT


class _CallClock:
    """When this call began; a process that serves several calls sets it anew for each."""

    began = time.monotonic()


def begin_call() -> None:
    """From now on a call is served."""
    _CallClock.began = time.monotonic()


def seconds_left(environ: Mapping[str, str] | None = None) -> float:
    """Seconds until the host ends this call, `OPENSKILL_TIMEOUT_MS` after it began: a skill can stop before that."""
    return SkillCallContext(environ).timeout_ms / 1000 - (time.monotonic() - _CallClock.began)


class SkillRefusal(Exception):
    """The skill does not do what was asked; `word` is one of the words of `openskills.errors`.

    `INVALID_ARGUMENT` (400) for what the caller can mend, `FORBIDDEN_PATH` (403) for files out of bounds, `INTERNAL`
    (500) for what it cannot. `details` go to `error.details`. A word that is not known is a `ValueError`.
    """

    def __init__(self, word: str, message: str, **details: object) -> None:
        codes = {kind.reason: kind.code for kind in _iter_error_types(SkillError)}
        if word not in codes:
            raise ValueError(f"{word!r} is no reason; use one of {', '.join(sorted(codes))}")
        super().__init__(message)
        self.word = word
        self.code = codes[word]
        self.message = message
        self.details = details


def _iter_error_types(kind: type[SkillError]) -> Iterator[type[SkillError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _iter_error_types(child)


JsonObject = dict[str, Any]


class Answer:
    """The `data` of a skill that has more to say: whether something was left out, and notes for `meta`."""

    __slots__ = ("data", "notes", "truncated")

    def __init__(self, data: Mapping[str, Any], *, truncated: bool = False, notes: Mapping[str, Any] | None = None):
        self.data = data
        self.truncated = truncated
        self.notes = notes or {}


def build_error(error: SkillRefusal | SkillError) -> JsonObject:
    """The `error` of a result: a number, a sentence, and the word that belongs to the number."""
    word = error.word if isinstance(error, SkillRefusal) else error.reason
    return {"code": error.code, "message": error.message, "details": {"reason": word, **error.details}}


def build_internal_error(message: str, **details: object) -> JsonObject:
    """The `error` of a skill that could not do its work."""
    return {"code": SkillError.code, "message": message, "details": {"reason": SkillError.reason, **details}}


def to_answer(given: object) -> tuple[Answer | None, JsonObject | None]:
    """What a handler returned as an answer; or the error, when it returned something else."""
    if isinstance(given, Answer):
        return given, None
    if isinstance(given, Mapping):
        return Answer(given), None  # pyright: ignore[reportUnknownArgumentType]
    return None, build_internal_error(f"the skill returned {type(given).__name__}; it has to return an object (a dict)")


def build_result(
    answer: Answer | None, error: JsonObject | None, *, skill_id: str, trace_id: str, version: str, latency_ms: float
) -> bytes:
    """The Normalized Skill Result as one line of JSON; data that is no JSON makes it an `INTERNAL` error."""
    if error is None and answer is not None:
        meta = {**answer.notes, **_build_meta(version, latency_ms), **({"truncated": True} if answer.truncated else {})}
        try:
            return _encode_line(_build_envelope(skill_id, trace_id, dict(answer.data), None, meta))
        except (TypeError, ValueError, RecursionError) as problem:
            error = build_internal_error(f"the skill returned what is no JSON: {problem}")
    return _encode_line(_build_envelope(skill_id, trace_id, None, error, _build_meta(version, latency_ms)))


def _build_meta(version: str, latency_ms: float) -> JsonObject:
    return {"latency_ms": round(latency_ms, 3), "version": version}


def _build_envelope(
    skill_id: str, trace_id: str, data: JsonObject | None, error: JsonObject | None, meta: JsonObject
) -> JsonObject:
    return {
        "success": error is None,
        "skill_id": skill_id,
        "trace_id": trace_id,
        "data": data,
        "error": error,
        "meta": meta,
    }


def _encode_line(value: JsonObject) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Names of files may hold halves of characters, which no JSON has.
    return text.encode("utf-8", "replace") + b"\n"


_MAX_LINE_LENGTH = 8192


def progress(done: float, total: float | None = None, message: str = "") -> None:
    """Say how far the work is. Callers that stream see it at once."""
    emit("progress", done=done, **({} if total is None else {"total": total}), **_drop_empty(message=message))


def artifact(path: str, **more: Any) -> None:
    """Say that a file was made; `path` as the caller may ask for it."""
    emit("artifact", path=path, **more)


def log(message: str, **fields: Any) -> None:
    """Say something to whoever reads the logs of the host."""
    emit("log", message=message, **fields)


def emit(event: str, **fields: Any) -> None:
    """Write one event. Values that JSON does not have are written as their text."""
    stream = sys.stderr
    if isinstance(stream, LineEventStream):
        stream = stream.under
    write_event(stream, event, fields)


def write_event(stream: IO[str] | None, event: str, fields: dict[str, Any]) -> None:
    """Write one event to a stream; nobody is there to be told when that fails."""
    text = json.dumps({"event": event, **fields}, ensure_ascii=True, default=str)
    if stream is None:
        return
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError):
        return


class LineEventStream(io.TextIOBase):
    """A text stream for whatever prints: each line becomes an event on the stream `under` it."""

    def __init__(self, under: IO[str] | None, event: str) -> None:
        super().__init__()
        self.under = under
        self.event = event
        self._rest = ""

    def writable(self) -> bool:
        """It is for writing only."""
        return True

    def write(self, text: str, /) -> int:
        """Take text; whole lines are passed on, long ones in pieces."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._emit_line(line)
        while len(self._rest) > _MAX_LINE_LENGTH:
            self._emit_line(self._rest[:_MAX_LINE_LENGTH])
            self._rest = self._rest[_MAX_LINE_LENGTH:]
        return len(text)

    def finish(self) -> None:
        """Pass on what has no end of line."""
        if self._rest:
            self._emit_line(self._rest)
            self._rest = ""

    def _emit_line(self, line: str) -> None:
        if line.strip():
            write_event(self.under, self.event, {"text": line[:_MAX_LINE_LENGTH]})


def _drop_empty(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


_SAFE = 2**63
_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


def bind_arguments(handler: Callable[..., object], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What to call a handler with. A handler of one positional-only parameter gets the whole input as it is.

    Raises `InvalidArgument` that names the field: missing, unknown (with the nearest name), or of another type than
    the annotation of the parameter says. `**rest` takes unknown fields.
    """
    code: CodeType = handler.__code__
    if code.co_posonlyargcount == 1:
        return [dict(given)], {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_rest = bool(code.co_flags & 0x08)
    for name in given:
        if name not in names and not takes_rest:
            raise InvalidArgument(name[:100], f"is not known; {_suggest_name(name, names)}")
    hints = _read_hints(handler)
    optional = _optional_parameters(handler, code)
    for name in names:
        if name not in given and name not in optional:
            raise InvalidArgument(name, "is required")
    return [], {name: convert_value(name, value, hints.get(name, Any)) for name, value in given.items()}


def convert_value(field: str, value: Any, wanted: Any) -> Any:
    """The value, when it is of the wanted type; a whole number may be written with a point (`5.0`).

    Knows what JSON has: `str`, `int`, `float`, `bool`, `None`, `list[X]`, `dict[str, X]`, `Literal`, unions, `Any`.
    Other classes are checked as such. Raises `InvalidArgument`.
    """
    origin, choices = get_origin(wanted), get_args(wanted)
    if wanted is Any or wanted is object:
        return value
    if origin in (Union, UnionType):
        return _match_choice(field, value, choices)
    if origin is Literal:
        if value in choices and any(value == choice and type(value) is type(choice) for choice in choices):
            return value
        raise InvalidArgument(field, f"has to be one of {', '.join(map(repr, choices))}, not {excerpt(value)}")
    kind = _normalize_type(origin or wanted)
    value = _convert_to(field, value, kind)
    if kind is list and choices:
        return [convert_value(f"{field}[{number}]", item, choices[0]) for number, item in enumerate(value)]
    if kind is dict and len(choices) == len(("key", "value")):
        return {name: convert_value(f"{field}.{name[:100]}", item, choices[1]) for name, item in value.items()}
    return value


def excerpt(value: Any) -> str:
    """A value from outside in a message: what it is, and as much of it as fits."""
    word = _WORDS.get(type(value), "a number")
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        text = repr(value) if not isinstance(value, int) or value.bit_length() < 256 else "very many digits"
        return f"{word} ({text if len(text) <= 60 else text[:60] + '…'})"
    return word


def _normalize_type(wanted: Any) -> Any:
    if wanted is Mapping:
        return dict
    return list if wanted is Sequence else (NoneType if wanted is None else wanted)


def _convert_to(field: str, value: Any, kind: Any) -> Any:
    truth = isinstance(value, bool)
    if kind is int and type(value) not in (int, bool, str, list, dict, NoneType) and -_SAFE < value < _SAFE:
        # Beyond that, a few characters (1e999999) could become a number that fills the memory.
        value = int(value) if value == int(value) else value
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if fits and truth == (kind is bool):
        return value
    raise InvalidArgument(field, f"has to be {_describe_type(kind)}, not {excerpt(value)}")


def _match_choice(field: str, value: Any, choices: Sequence[Any]) -> Any:
    problems: list[InvalidArgument] = []
    for choice in sorted(choices, key=lambda choice: type(value) is not _normalize_type(get_origin(choice) or choice)):
        try:
            return convert_value(field, value, choice)
        except InvalidArgument as problem:
            problems.append(problem)
    deepest = max(problems, key=lambda problem: len(problem.field))
    if deepest.field != field:
        raise deepest
    words = dict.fromkeys(_describe_type(_normalize_type(get_origin(choice) or choice)) for choice in choices)
    if "a number" in words:
        words.pop("a whole number", None)
    raise InvalidArgument(field, f"has to be {' or '.join(words)}, not {excerpt(value)}")


def _describe_type(kind: Any) -> str:
    return _WORDS.get(kind) or ("a number" if hasattr(kind, "as_tuple") else getattr(kind, "__name__", str(kind)))


def _read_hints(handler: Callable[..., object]) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = handler.__annotations__
    return get_type_hints(handler) if any(isinstance(hint, str) for hint in plain.values()) else plain


def _optional_parameters(handler: Any, code: CodeType) -> frozenset[str]:
    positional = code.co_varnames[: code.co_argcount]
    defaults = handler.__defaults__ or ()
    return frozenset(positional[len(positional) - len(defaults) :]) | frozenset(handler.__kwdefaults__ or ())


def _suggest_name(name: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:100], names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(map(repr, names))}"


MAX_INPUT = 16 * 1024 * 1024
"""Bytes of stdin that are read; the host's own limit is lower."""

_SHAPE = 'stdin has to be {"input": {...}}'


def parse_input(data: bytes, *, exact: bool = False) -> dict[str, Any]:
    """The object `input` of a request. With `exact` numbers with a fraction or an exponent come as `Decimal`.

    Raises `InvalidArgument` for what is no JSON: also for NaN, infinities, keys that occur twice, halves of
    characters, and what is nested too deeply.
    """
    if len(data) > MAX_INPUT:
        raise InvalidArgument("input", f"is larger than {MAX_INPUT} bytes")
    if not data.strip():
        raise InvalidArgument("input", f"is missing: {_SHAPE}")
    whole = _parse_json(data, _decimal_parser() if exact else None)
    if not isinstance(whole, dict) or not isinstance(whole.get("input"), dict):  # pyright: ignore[reportUnknownMemberType]
        raise InvalidArgument("input", f"is missing or no object: {_SHAPE}")
    return whole["input"]  # pyright: ignore[reportUnknownVariableType]


def _parse_json(data: bytes, parse_float: Callable[[str], Any] | None) -> object:
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(
            text, object_pairs_hook=_build_object, parse_constant=_reject_constant, parse_float=parse_float
        )
        if "\\ud" in text or "\\uD" in text:
            # Only an escape can bring half a character into a text that was UTF-8.
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument("input", f"is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise InvalidArgument("input", "contains half a character (a lone surrogate)") from None
    except json.JSONDecodeError as error:
        raise InvalidArgument("input", f"is no JSON: {error}") from None
    except RecursionError:
        raise InvalidArgument("input", "is nested too deeply") from None
    except ValueError:
        raise InvalidArgument("input", "contains a number with too many digits") from None
    return value


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise InvalidArgument("input", f"has the key {twice[:100]!r} twice in one object")
    return found


def _reject_constant(word: str) -> object:
    raise InvalidArgument("input", f"contains {word}, which is no number of JSON")


def _decimal_parser() -> Callable[[str], Any]:
    from decimal import Decimal, InvalidOperation

    def read(digits: str) -> Decimal:
        try:
            return Decimal(digits)
        except InvalidOperation:
            raise InvalidArgument("input", f"contains a number that is too large or too small: {digits[:40]}") from None

    return read


Handler = Callable[..., Any]
DEFAULT_VERSION = "0.1.0"


def main(handler: Handler, *, version: str = DEFAULT_VERSION, exact: bool = False) -> NoReturn:
    """Serve one call with a function, and end: with 0 when it was done, with 1 when not.

    The fields of `input` are the parameters of the function, checked against its annotations. What it returns is
    `data`: a dict, or an `Answer`. `Refused` and every `SkillError` become the `error`; anything else is `INTERNAL`.
    What it prints goes to stderr as lines of JSON. With `exact` numbers with a fraction come as `Decimal`.
    """
    began = time.perf_counter()
    begin_call()
    around = SkillCallContext(name=_script_name(handler))
    with _protect_stdout():
        answer, error = _call_handler(handler, exact, around.debug)
    spent = (time.perf_counter() - began) * 1000
    line = build_result(
        answer, error, skill_id=around.skill_id, trace_id=around.trace_id, version=version, latency_ms=spent
    )
    written = _write_result(line)
    sys.exit(0 if written and line.startswith(b'{"success":true') else 1)


def skill(*, version: str = DEFAULT_VERSION, exact: bool = False) -> Callable[[Handler], Handler]:
    """A decorator for the last function of a script: `main` with it when the script is run, nothing when imported."""

    def decorate(handler: Handler) -> Handler:
        if handler.__module__ == "__main__":
            main(handler, version=version, exact=exact)
        return handler

    return decorate


def _call_handler(handler: Handler, exact: bool, debug: bool) -> tuple[Answer | None, JsonObject | None]:
    try:
        positional, named = bind_arguments(handler, parse_input(_read_stdin(), exact=exact))
        return to_answer(handler(*positional, **named))
    except (SkillRefusal, SkillError) as error:
        return None, build_error(error)
    except SystemExit as error:
        return None, build_internal_error(f"the skill called sys.exit({error.code!r}) instead of returning")
    # Whatever a skill does, its caller gets a result.
    except Exception as error:  # noqa: BLE001
        return None, _describe_unexpected(error, debug)


def _describe_unexpected(error: Exception, debug: bool) -> JsonObject:
    import traceback

    trace = "".join(traceback.format_exception(error))
    emit("error", type=type(error).__name__, message=str(error), traceback=trace)
    said = str(error)[:1000]
    message = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return build_internal_error(message, **({"traceback": trace} if debug else {}))


def _read_stdin() -> bytes:
    stream: Any = sys.stdin
    if stream is None:
        return b""
    return stream.buffer.read(MAX_INPUT + 1)


@contextmanager
def _protect_stdout() -> Generator[None]:
    """Keep everybody else from stdout: what Python prints becomes events, what children print goes to stderr."""
    python_out, python_err = sys.stdout, sys.stderr
    kept = _redirect_stdout()
    if python_out is not None:  # pyright: ignore[reportUnnecessaryComparison]
        # What was printed before this call is not for stdout either.
        python_out.flush()
    out, err = LineEventStream(python_err, "stdout"), LineEventStream(python_err, "stderr")
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


def _redirect_stdout() -> int | None:
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


def _write_result(line: bytes) -> bool:
    stream: Any = sys.stdout
    try:
        stream.buffer.write(line)
        stream.flush()
    except (OSError, ValueError, AttributeError):
        # Nobody listens any more. Python would complain about it once more at the end.
        sys.stdout = None
        return False
    return True


def _script_name(handler: Handler) -> str:
    return os.path.splitext(os.path.basename(handler.__code__.co_filename))[0]
