"""Entry point of skills that are programs: one request on stdin, one Normalized Skill Result on stdout.

The input is validated against the parameters of a handler function. Events (progress, artifacts, logs) are lines of
JSON on stderr. The process must start fast, so this module reads its variables itself instead of importing
`openskills.settings`, and uses neither `inspect` nor schema libraries.
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
    """The environment of a call: ids, the allowed directory, and the timeout."""

    __slots__ = ("allowed_root", "debug", "skill_id", "timeout_ms", "trace_id")

    def __init__(self, environ: Mapping[str, str] | None = None, *, name: str = "skill") -> None:
        """Read the variables; `name` is the default for the skill's id."""
        env = os.environ if environ is None else environ
        self.skill_id = env.get("OPENSKILL_SKILL_ID", "")[:_MAX_ID_LENGTH] or name
        self.trace_id = env.get("OPENSKILL_TRACE_ID", "")[:_MAX_ID_LENGTH] or os.urandom(16).hex()
        self.allowed_root = env.get("OPENSKILL_ALLOWED_ROOT") or DEFAULT_ROOT
        self.debug = env.get("OPENSKILL_DEBUG", "0") not in ("", "0", "false")
        given = env.get("OPENSKILL_TIMEOUT_MS", "")
        self.timeout_ms = int(given) if given.isdecimal() and int(given) else DEFAULT_TIMEOUT


class _CallClock:
    """When this call began; reset for each call of a process that serves several."""

    began = time.monotonic()


def begin_call() -> None:
    """Start the clock of a call."""
    _CallClock.began = time.monotonic()


def seconds_left(environ: Mapping[str, str] | None = None) -> float:
    """Seconds until the host kills this call, `OPENSKILL_TIMEOUT_MS` after it began."""
    return SkillCallContext(environ).timeout_ms / 1000 - (time.monotonic() - _CallClock.began)


class SkillRefusal(Exception):
    """Raise this to refuse a request; `word` is one of the reasons in `openskills.errors`.

    `INVALID_ARGUMENT` (400) for errors of the caller, `FORBIDDEN_PATH` (403) for files outside the allowed directory,
    `INTERNAL` (500) for other errors. `details` go to `error.details`. Raises `ValueError` for an unknown reason.
    """

    def __init__(self, word: str, message: str, **details: object) -> None:
        codes: dict[str, int] = {}
        for kind in _iter_error_types(SkillError):
            # A class of the application that inherits the reason does not change its number.
            codes.setdefault(kind.reason, kind.code)
        if word not in codes:
            raise ValueError(f"unknown reason {word!r}; use one of {', '.join(sorted(codes))}")
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
    """The result of a handler: its `data`, whether it is truncated, and notes for `meta`."""

    __slots__ = ("data", "notes", "truncated")

    def __init__(self, data: Mapping[str, Any], *, truncated: bool = False, notes: Mapping[str, Any] | None = None):
        self.data = data
        self.truncated = truncated
        self.notes = notes or {}


def build_error(error: SkillRefusal | SkillError) -> JsonObject:
    """The `error` of a result: code, message and reason."""
    word = error.word if isinstance(error, SkillRefusal) else error.reason
    return {"code": error.code, "message": error.message, "details": {"reason": word, **error.details}}


def build_internal_error(message: str, **details: object) -> JsonObject:
    """An `error` with the reason `INTERNAL`."""
    return {"code": SkillError.code, "message": message, "details": {"reason": SkillError.reason, **details}}


def to_answer(given: object) -> tuple[Answer | None, JsonObject | None]:
    """The return value of a handler as an `Answer`, or an error if it is not a mapping."""
    if isinstance(given, Answer):
        return given, None
    if isinstance(given, Mapping):
        return Answer(given), None  # pyright: ignore[reportUnknownArgumentType]
    return None, build_internal_error(f"the skill returned {type(given).__name__}; expected a dict")


def build_result(
    answer: Answer | None, error: JsonObject | None, *, skill_id: str, trace_id: str, version: str, latency_ms: float
) -> bytes:
    """The Normalized Skill Result as one line of JSON; data that is not JSON makes it an `INTERNAL` error."""
    if error is None and answer is not None:
        meta = {**answer.notes, **_build_meta(version, latency_ms), **({"truncated": True} if answer.truncated else {})}
        try:
            return _encode_line(_build_envelope(skill_id, trace_id, dict(answer.data), None, meta))
        except (TypeError, ValueError, RecursionError) as problem:
            error = build_internal_error(f"the skill returned a value that is not valid JSON: {problem}")
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
    # File names may contain lone surrogates, which cannot be encoded.
    return text.encode("utf-8", "replace") + b"\n"


_MAX_LINE_LENGTH = 8192


def progress(done: float, total: float | None = None, message: str = "") -> None:
    """Report progress; callers that stream see it at once."""
    emit(
        "progress",
        done=done,
        **({} if total is None else {"total": total}),
        **({"message": message} if message else {}),
    )


def artifact(path: str, **more: Any) -> None:
    """Report a created file, with a path that the caller can use."""
    emit("artifact", path=path, **more)


def log(message: str, **fields: Any) -> None:
    """Write a message to the logs of the host."""
    emit("log", message=message, **fields)


def emit(event: str, **fields: Any) -> None:
    """Write one event. Values that are not JSON are written as text."""
    stream = sys.stderr
    if isinstance(stream, LineEventStream):
        stream = stream.under
    write_event(stream, event, fields)


def write_event(stream: IO[str] | None, event: str, fields: dict[str, Any]) -> None:
    """Write one event to a stream; errors are ignored."""
    text = json.dumps({"event": event, **fields}, ensure_ascii=True, default=str)
    if stream is None:
        return
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError):
        return


class LineEventStream(io.TextIOBase):
    """A text stream that turns each line into an event on the stream `under`."""

    def __init__(self, under: IO[str] | None, event: str) -> None:
        super().__init__()
        self.under = under
        self.event = event
        self._rest = ""

    def writable(self) -> bool:
        """Always True."""
        return True

    def write(self, text: str, /) -> int:
        """Write text; complete lines become events, long ones in parts."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._emit_line(line)
        while len(self._rest) > _MAX_LINE_LENGTH:
            self._emit_line(self._rest[:_MAX_LINE_LENGTH])
            self._rest = self._rest[_MAX_LINE_LENGTH:]
        return len(text)

    def finish(self) -> None:
        """Write an incomplete last line."""
        if self._rest:
            self._emit_line(self._rest)
            self._rest = ""

    def _emit_line(self, line: str) -> None:
        if line.strip():
            write_event(self.under, self.event, {"text": line[:_MAX_LINE_LENGTH]})


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
    """The arguments for a handler. A handler with one positional-only parameter gets the whole input.

    Raises `InvalidArgument` for a field that is missing, unknown, or not of the annotated type. `**rest` accepts
    unknown fields.
    """
    code: CodeType = handler.__code__
    if code.co_posonlyargcount == 1:
        return [dict(given)], {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_rest = bool(code.co_flags & 0x08)
    for name in given:
        if name not in names and not takes_rest:
            raise InvalidArgument(name[:100], f"unknown field; {_suggest_name(name, names)}")
    hints = _read_hints(handler)
    optional = _optional_parameters(handler, code)
    for name in names:
        if name not in given and name not in optional:
            raise InvalidArgument(name, "required")
    return [], {name: convert_value(name, value, hints.get(name, Any)) for name, value in given.items()}


def convert_value(field: str, value: Any, wanted: Any) -> Any:
    """Check that a value has the wanted type and return it; `5.0` is accepted as an `int`.

    Supports `str`, `int`, `float`, `bool`, `None`, `list[X]`, `dict[str, X]`, `Literal`, unions, `Any`, and checks
    other classes with `isinstance`. Raises `InvalidArgument`.
    """
    origin, choices = get_origin(wanted), get_args(wanted)
    if wanted is Any or wanted is object:
        return value
    if origin in (Union, UnionType):
        return _match_choice(field, value, choices)
    if origin is Literal:
        if value in choices and any(value == choice and type(value) is type(choice) for choice in choices):
            return value
        raise InvalidArgument(field, f"expected one of {', '.join(map(repr, choices))}, not {excerpt(value)}")
    kind = _normalize_type(origin or wanted)
    value = _convert_to(field, value, kind)
    if kind is list and choices:
        return [convert_value(f"{field}[{number}]", item, choices[0]) for number, item in enumerate(value)]
    if kind is dict and len(choices) == len(("key", "value")):
        return {name: convert_value(f"{field}.{name[:100]}", item, choices[1]) for name, item in value.items()}
    return value


def excerpt(value: Any) -> str:
    """A value for a message: its type, and the beginning of it."""
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
        # Limited, because a few characters (1e999999) could become an integer that fills the memory.
        value = int(value) if value == int(value) else value
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if fits and truth == (kind is bool):
        return value
    raise InvalidArgument(field, f"expected {_describe_type(kind)}, not {excerpt(value)}")


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
    raise InvalidArgument(field, f"expected {' or '.join(words)}, not {excerpt(value)}")


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
    return f"did you mean {near[0]!r}?" if near else f"known fields: {', '.join(map(repr, names))}"


MAX_INPUT = 16 * 1024 * 1024
"""Maximum size of stdin; the host's own limit is lower."""

_SHAPE = 'expected {"input": {...}} on stdin'


def parse_input(data: bytes, *, exact: bool = False) -> dict[str, Any]:
    """The object `input` of a request. With `exact`, numbers with a fraction or an exponent become `Decimal`.

    Raises `InvalidArgument` for invalid JSON, including NaN, infinities, duplicate keys, lone surrogates, and too deep
    nesting.
    """
    if len(data) > MAX_INPUT:
        raise InvalidArgument("input", f"larger than {MAX_INPUT} bytes")
    if not data.strip():
        raise InvalidArgument("input", f"missing; {_SHAPE}")
    whole = _parse_json(data, _decimal_parser() if exact else None)
    if not isinstance(whole, dict) or not isinstance(whole.get("input"), dict):  # pyright: ignore[reportUnknownMemberType]
        raise InvalidArgument("input", f"missing or not an object; {_SHAPE}")
    return whole["input"]  # pyright: ignore[reportUnknownVariableType]


def _parse_json(data: bytes, parse_float: Callable[[str], Any] | None) -> object:
    try:
        text = data.decode("utf-8-sig")
        value = parse_json(text, parse_float)
        if "\\ud" in text or "\\uD" in text:
            # In valid UTF-8 only an escape can produce a lone surrogate.
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument("input", f"not valid UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise InvalidArgument("input", "contains a lone surrogate") from None
    except InvalidJson as error:
        raise InvalidArgument("input", f"not valid JSON: {error}") from None
    return value


class InvalidJson(ValueError):
    """Text that is not strict JSON. `line` and `column` of a syntax error count from 1."""

    def __init__(
        self, kind: Literal["syntax", "duplicate", "depth", "number"], detail: str, line: int = 0, column: int = 0
    ) -> None:
        super().__init__(f"{detail} at line {line}, column {column}" if line else detail)
        self.kind = kind
        self.detail = detail
        self.line = line
        self.column = column


def parse_json(text: str, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Parse strict JSON: no duplicate keys, NaN or infinities. Raises `InvalidJson`."""
    try:
        return json.loads(text, object_pairs_hook=_build_object, parse_constant=reject_number, parse_float=parse_float)
    except json.JSONDecodeError as error:
        raise InvalidJson("syntax", error.msg, error.lineno, error.colno) from None
    except RecursionError:
        raise InvalidJson("depth", "nested too deeply") from None
    except InvalidJson:
        raise
    except ValueError:
        # Python does not parse integers with thousands of digits.
        raise InvalidJson("number", "a number has too many digits") from None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise InvalidJson("duplicate", f"duplicate key {twice[:100]!r} in an object")
    return found


def reject_number(word: str) -> NoReturn:
    """Raise `InvalidJson` for a number that JSON does not have."""
    raise InvalidJson("number", f"{word} is not a JSON number")


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
    """Serve one call with a function and exit, with 0 on success and 1 on failure.

    The fields of `input` are the parameters of the function, checked against its annotations. It returns `data` as a
    dict or an `Answer`. `SkillRefusal` and `SkillError` become the `error`; other exceptions become `INTERNAL`. Its
    output goes to stderr as lines of JSON. With `exact`, numbers with a fraction are `Decimal`.
    """
    began = time.perf_counter()
    begin_call()
    script = os.path.basename(handler.__code__.co_filename)
    around = SkillCallContext(name=os.path.splitext(script)[0])
    with _protect_stdout():
        answer, error = _call_handler(handler, exact, around.debug)
    spent = (time.perf_counter() - began) * 1000
    line = build_result(
        answer, error, skill_id=around.skill_id, trace_id=around.trace_id, version=version, latency_ms=spent
    )
    written = _write_result(line)
    sys.exit(0 if written and line.startswith(b'{"success":true') else 1)


def skill(*, version: str = DEFAULT_VERSION, exact: bool = False) -> Callable[[Handler], Handler]:
    """A decorator for the last function of a script: calls `main` when the script is run, not when it is imported."""

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
    # The caller always gets a result.
    except Exception as error:  # noqa: BLE001
        return None, _describe_unexpected(error, debug)


def _describe_unexpected(error: Exception, debug: bool) -> JsonObject:
    import traceback

    trace = "".join(traceback.format_exception(error))
    emit("error", type=type(error).__name__, message=str(error), traceback=trace)
    text = str(error)[:1000]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return build_internal_error(message, **({"traceback": trace} if debug else {}))


def _read_stdin() -> bytes:
    stream: Any = sys.stdin
    if stream is None:
        return b""
    return stream.buffer.read(MAX_INPUT + 1)


@contextmanager
def _protect_stdout() -> Generator[None]:
    """Reserve stdout for the result: what Python prints becomes events, output of children goes to stderr."""
    python_out, python_err = sys.stdout, sys.stderr
    kept = _redirect_stdout()
    if python_out is not None:  # pyright: ignore[reportUnnecessaryComparison]
        # Output from before this call must not go to stdout either.
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
    """Redirect descriptor 1 to stderr; return a duplicate of the original, if it is open."""
    try:
        kept = os.dup(1)
    except OSError:
        return None
    try:
        os.dup2(2, 1)
    except OSError:
        # Without stderr, discard the output.
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
        # The reader is gone. Keep Python from reporting it again at exit.
        sys.stdout = None
        return False
    return True
