"""Manifests of hosted skills, in YAML or JSON, parsed into a `Registration`. Everything wrong is reported at once.

YAML is read by the parser of SKILL.md, which rejects aliases, anchors and tags and bounds size. Scalars keep their
text; unquoted ones also get their value in the core schema of YAML 1.2, so `no` is text and `true` is not. A
missing, null or invalid field has its default. Paths are resolved later, in `folders.py`.
"""

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, cast

import jsonschema_rs

from openskills.errors import InvalidArgument, shorten
from openskills.host.model import HostLimits, Registration, SkillStartMethod
from openskills.host.runners.kinds import MODULE_PATTERN, RUNNER_KINDS
from openskills.project import SECRET_NAME_PATTERN
from openskills.settings import DEFAULT_TIMEOUT_MS, parse_amount
from openskills.skillkit.entry import InvalidJson, parse_json, reject_number
from openskills.skillmd.frontmatter import LineIndex
from openskills.skillmd.problem import Problem, Severity, select_errors
from openskills.skillmd.yaml import MAX_DEPTH, MAX_KEYS, FrontMatterError, Value, ValuePath, YamlSpans, read_yaml
from openskills.version import __version__


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """The fields of a manifest, or the problems with it, and the position (line and column) of each field.

    `texts` are the source texts of unquoted YAML scalars that are not strings.
    """

    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    problems: tuple[Problem, ...] = ()
    positions: Mapping[ValuePath, tuple[int, int]] = field(default_factory=dict[ValuePath, tuple[int, int]])
    texts: Mapping[ValuePath, str] = field(default_factory=dict[ValuePath, str])


def _to_lines(spans: YamlSpans, lines: LineIndex) -> dict[ValuePath, tuple[int, int]]:
    return {path: lines.at(start) for path, (start, _, _) in spans.values.items()}


def duplicate_key_problem(name: str, line: int | None = None, column: int | None = None) -> Problem:
    return Problem("key-twice", f"duplicate key {shorten(name, 60)!r}; keep one of them", line=line, column=column)


VARIABLE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
"""The name of an environment variable."""

_MAX_LIST_LENGTH = 256
_T = TypeVar("_T")
_EXCERPT_LENGTH = 60


class ManifestReader:
    """Reads typed fields of a document, and collects problems with them."""

    def __init__(self, document: ManifestDocument, *path: str) -> None:
        self._document = document
        self._path = path
        self.problems: list[Problem] = []
        self._fields: Mapping[str, Any] = document.fields
        for step in path:
            below: object = self._fields.get(step)
            self._fields = cast("Mapping[str, Any]", below) if isinstance(below, dict) else {}

    def read_text(self, name: str, default: str = "", *, max_length: int = 4096) -> str:
        """A string; an unquoted YAML scalar counts as its text."""
        value = self._fields.get(name)
        if value is None:
            return default
        text = self._find_text(value, name)
        if text is None:
            return self._reject(name, f"expected a string, got {_describe_kind(value)}", default)
        if "\0" in text or len(text) > max_length:
            return self._reject(name, f"is longer than {max_length:,} characters, or contains a NUL", default)
        return text

    def read_choice(self, name: str, words: Collection[str], default: str) -> str:
        text = self.read_text(name, default)
        if text in words:
            return text
        message = f"{excerpt(text)} is not one of {', '.join(words)}{_suggest_word(text, words)}"
        return self._reject(name, message, default)

    def read_match(self, name: str, pattern: str, what: str, default: str = "") -> str:
        """A string that matches a pattern; `what` describes it in messages."""
        text = self.read_text(name, default)
        if text == default or re.fullmatch(pattern, text, re.ASCII):
            return text
        return self._reject(name, f"{excerpt(text)} is not {what}", default)

    def read_integer(self, name: str, default: int, minimum: int, maximum: int) -> int:
        value = self._fields.get(name)
        if value is None or (_is_integer(value) and minimum <= value <= maximum):
            return default if value is None else value
        message = f"{self._describe(value, name)} is not an integer from {minimum:,} to {maximum:,}"
        return self._reject(name, message, default)

    def read_flag(self, name: str, default: bool) -> bool:
        value = self._fields.get(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        return self._reject(name, f"{self._describe(value, name)} is not a boolean", default)

    def read_limit(self, name: str, default: int | None, *, maximum: int) -> int | None:
        """A number, or an amount such as 512M; null means no limit."""
        value = self._fields.get(name, default)
        if value is None or name not in self._fields:
            return value
        try:
            number = parse_amount(value, name) if isinstance(value, str) else value
        except InvalidArgument:
            number = None
        if _is_integer(number) and 0 < number <= maximum:
            return number
        said = self._describe(value, name)
        message = f"{said} is not a number from 1 to {maximum:,}; use 512M for amounts, null for no limit"
        return self._reject(name, message, default)

    def read_names(self, name: str, pattern: re.Pattern[str], what: str, *, secret: bool = False) -> tuple[str, ...]:
        """A list of names. Invalid `secret` names are not quoted in messages: they may be the secret itself."""
        value = self._fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            return self._reject(name, f"expected a list of names, got {_describe_kind(value)}", ())
        items = cast("list[Any]", value)
        if len(items) > _MAX_LIST_LENGTH:
            return self._reject(name, f"has {len(items):,} items, more than {_MAX_LIST_LENGTH}", ())
        found: list[str] = []
        for number, item in enumerate(items):
            text = self._find_text(item, name, number)
            if text is not None and pattern.fullmatch(text):
                found.append(text)
            else:
                said = f"item {number + 1}" if secret else self._describe(item, name, number)
                self.add_error(name, f"{said} is not {what}", at=(name, number))
        return tuple(dict.fromkeys(found))

    def read_variables(self, name: str) -> dict[str, str]:
        """A map from variable names to strings."""
        found: dict[str, str] = {}
        for key, item in self.read_map(name).items():
            text = self._find_text(item, name, key)
            if not VARIABLE_PATTERN.fullmatch(key):
                self.add_error(name, f"{excerpt(key)} is not a variable name", at=(name, key))
            elif text is None and not isinstance(item, bool | int | float):
                self.add_error(name, f"{key}: expected a string, got {_describe_kind(item)}", at=(name, key))
            else:
                found[key] = text if text is not None else str(item).lower()
                if "\0" in found[key]:
                    self.add_error(name, f"{key} contains a NUL", at=(name, key))
        return found

    def read_map(self, name: str) -> Mapping[str, Any]:
        value: object = self._fields.get(name)
        if value is None or isinstance(value, dict):
            return cast("dict[str, Any]", value or {})
        return self._reject(name, f"expected a map, got {_describe_kind(value)}", {})

    def is_list(self, name: str) -> bool:
        return isinstance(self._fields.get(name), list)

    def is_null(self, name: str) -> bool:
        return name in self._fields and self._fields[name] is None

    def has_field(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def add_error(self, name: str, message: str, *, rule: str = "field-value", at: ValuePath | None = None) -> None:
        self._add_problem(name, message, rule, at, Severity.ERROR)

    def add_warning(self, name: str, message: str, *, rule: str, at: ValuePath | None = None) -> None:
        self._add_problem(name, message, rule, at, Severity.WARNING)

    def warn_unknown(self, known: Collection[str]) -> None:
        for name in self._fields:
            if name not in known:
                message = f"unknown field, ignored{_suggest_word(name, known)}"
                self.add_warning(name, message, rule="field-unknown")

    def _find_text(self, value: object, *path: str | int) -> str | None:
        """The text of a scalar; None if it is a number, boolean or null of JSON, or not a scalar."""
        return value if isinstance(value, str) else self._document.texts.get((*self._path, *path))

    def _describe(self, value: object, *path: str | int) -> str:
        """A value for a message: a short one itself, otherwise its kind."""
        if isinstance(value, str):
            return excerpt(value)
        if value is None or isinstance(value, list | dict):
            return _describe_kind(cast("object", value))
        return (self._find_text(value, *path) or str(value))[:_EXCERPT_LENGTH]

    def _reject(self, name: str, message: str, default: _T) -> _T:
        self.add_error(name, message)
        return default

    def _add_problem(self, name: str, message: str, rule: str, at: ValuePath | None, severity: Severity) -> None:
        line, column = self._document.positions.get((*self._path, *(at or (name,))), (None, None))
        field = ".".join((*self._path, shorten(name, _EXCERPT_LENGTH)))
        self.problems.append(Problem(rule, f"{field}: {message}", severity, line, column))


def excerpt(text: str) -> str:
    """A quoted text for a message, shortened."""
    return repr(shorten(text, _EXCERPT_LENGTH))


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _describe_kind(value: object) -> str:
    scalars = {"str": "a string", "bool": "a boolean", "int": "a number", "float": "a number"}
    return {**scalars, "list": "a list", "dict": "a map"}.get(type(value).__name__, "null")


def _suggest_word(text: str, words: Collection[str]) -> str:
    near = get_close_matches(text[:_EXCERPT_LENGTH], words, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


_MAX_EXCERPT = 300


def read_schema(fields: ManifestReader, name: str) -> Mapping[str, Any] | None:
    """The JSON schema in this field; None if it is missing or invalid."""
    found = fields.read_map(name)
    if not found:
        return found if fields.has_field(name) else None
    if found.get("type", "object") != "object":
        message = "inputs and outputs are always objects; use type: object"
        fields.add_warning(name, message, rule="schema-type", at=(name, "type"))
    try:
        # Offline: references to other documents are refused. `meta.validate` would fetch a `$schema`.
        jsonschema_rs.validator_for(dict(found), offline=True)
    except jsonschema_rs.ValidationError as error:
        path = [*error.instance_path]
        where = f" at {'.'.join(map(str, path))[:_MAX_EXCERPT]}" if path else ""
        message = f"not a valid JSON schema{where}: {shorten(error.message, _MAX_EXCERPT)}"
        fields.add_error(name, message, rule="schema-invalid", at=(name, *path))
        return None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        fields.add_error(name, f"not a valid JSON schema: {shorten(str(error), _MAX_EXCERPT)}", rule="schema-invalid")
        return None
    return found


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def read_json(text: str) -> ManifestDocument:
    """Parse a manifest in JSON strictly: no duplicate keys, no NaN, no lone surrogates, bounded depth."""
    try:
        found: object = parse_json(text, _parse_float)
    except InvalidJson as error:
        if error.kind == "depth":
            return ManifestDocument(problems=(_depth_problem(),))
        if error.kind == "duplicate":
            return ManifestDocument(problems=(Problem("key-twice", f"{error.detail}; keep one of them"),))
        line, column = error.line or None, error.column or None
        problem = Problem(f"json-{error.kind}", f"not valid JSON: {error.detail}", line=line, column=column)
        return ManifestDocument(problems=(problem,))
    problem = _find_unsupported(found)
    if problem is not None:
        return ManifestDocument(problems=(problem,))
    seen = YamlSpans()
    # Nearly all JSON is also YAML, whose parser reports positions. Otherwise there are none.
    with suppress(FrontMatterError):
        read_yaml(text, seen)
    return ManifestDocument(cast("Mapping[str, Any]", found), (), _to_lines(seen, LineIndex(text)))


def _find_unsupported(found: object) -> Problem | None:
    if not isinstance(found, dict):
        return Problem("manifest-mapping", 'expected an object such as {"id": ...}', line=1, column=1)
    level: list[object] = [cast("object", found)]
    count = 0
    for _ in range(MAX_DEPTH):
        level = [item for value in level for item in _children(value)]
        count += len(level)
        if not level:
            return None
        if count > MAX_KEYS:
            return Problem("json-keys", f"more than {MAX_KEYS:,} keys and items")
        if any(isinstance(item, str) and _LONE_SURROGATE.search(item) for item in level):
            return Problem("text-surrogate", "a string contains a lone surrogate")
    return _depth_problem() if any(isinstance(item, dict | list) for item in level) else None


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return [*fields.keys(), *fields.values()]
    return cast("list[object]", value) if isinstance(value, list) else []


def _parse_float(text: str) -> float:
    number = float(text)
    return reject_number(text[:40]) if number in (float("inf"), float("-inf")) else number


def _depth_problem() -> Problem:
    return Problem("json-depth", f"values are nested more than {MAX_DEPTH} levels deep")


MAX_MANIFEST_BYTES = 256 * 1024
"""Size of a manifest."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,30}|[0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE][-+]?[0-9]{1,3})?")
_BOOLEANS = {word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())}


def read_document(data: bytes, *, is_json: bool) -> ManifestDocument:
    """Parse a manifest; errors are in `problems`."""
    if len(data) > MAX_MANIFEST_BYTES:
        return ManifestDocument(problems=(size_problem(len(data)),))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{data[error.start]:02x} is not UTF-8; save the manifest as UTF-8"
        return ManifestDocument(problems=(Problem("text-encoding", message, line=line),))
    return read_json(text) if is_json else _read_yaml(text)


def size_problem(size: int) -> Problem:
    return Problem("file-size", f"the file has {size:,} bytes; the limit for manifests is {MAX_MANIFEST_BYTES:,}")


def _read_yaml(text: str) -> ManifestDocument:
    seen, lines = YamlSpans(), LineIndex(text)
    try:
        tree = read_yaml(text, seen)
    except FrontMatterError as fault:
        line, column = lines.at(fault.offset)
        rule = fault.rule.replace("frontmatter", "manifest")
        problem = Problem(rule, fault.message.replace("front matter", "manifest"), line=line, column=column)
        return ManifestDocument(problems=(problem,))
    problems = tuple(duplicate_key_problem(name, *lines.at(offset)) for name, offset in tree.duplicates)
    texts: dict[ValuePath, str] = {}
    fields = {name: _build_value(value, (name,), seen, texts) for name, value in tree.fields.items()}
    return ManifestDocument(fields, problems, _to_lines(seen, lines), texts)


def _build_value(value: Value, path: ValuePath, seen: YamlSpans, texts: dict[ValuePath, str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _build_value(item, (*path, name), seen, texts) for name, item in value.items()}
    if value is not None and not isinstance(value, str):
        return [_build_value(item, (*path, number), seen, texts) for number, item in enumerate(value)]
    is_quoted = bool(seen.values.get(path, (0, 0, ""))[2])
    found = value if value is None or is_quoted else _parse_scalar(value)
    if not isinstance(found, str):
        texts[path] = value or ""
    return found


def _parse_scalar(text: str) -> str | int | float | bool:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    # A large exponent gives infinity, which JSON does not have.
    number = float(text) if _FLOAT.fullmatch(text) else None
    return text if number is None or number in (float("inf"), float("-inf")) else number


ID_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9_-]|\.(?=[a-z0-9_-])){0,63}")
ID_FORM = "a valid id; use up to 64 of a-z, 0-9, _, - and single dots, starting with a letter or digit"
MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000

FOLDER_FIELDS = (
    "id",
    "type",
    "runtime",
    "entry",
    "version",
    "description",
    "timeout_ms",
    "input_schema",
    "output_schema",
    "limits",
)
"""Fields of a manifest in the folder of a skill, whose author may be a stranger. Limits can only be lowered."""
FIELDS = (
    *FOLDER_FIELDS,
    "allowed_root",
    "writable",
    "env",
    "secrets",
    "executor",
    "warm",
    "preload",
    "options",
    "digest",
)
FOLDER_KINDS = tuple(name for name in RUNNER_KINDS if name.startswith("cli:"))
DIGEST_PREFIX = "sha256:"
_MAX_BYTES = 1024**5


@dataclass(frozen=True, slots=True)
class ManifestDefaults:
    """Defaults for missing fields. `kinds` are the known kinds; `more_kinds` is called for others.

    `in_folder`: the manifest is part of a skill, and not written by the operator of the host.
    """

    timeout_ms: int = DEFAULT_TIMEOUT_MS
    allowed_root: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    kinds: Collection[str] = tuple(RUNNER_KINDS)
    more_kinds: Callable[[], Collection[str]] = tuple
    description: str = ""
    version: str = __version__
    entry: str = ""
    kind: str = ""
    executor: str = "auto"
    in_folder: bool = False


@dataclass(frozen=True, slots=True)
class ManifestResult:
    """A parsed manifest. `registration` is None if there are errors; its paths are not resolved yet.

    `id` is that of the manifest, or the name of its file. `lines` maps the given fields to lines, if known.
    """

    id: str
    registration: Registration | None
    problems: tuple[Problem, ...]
    lines: Mapping[str, int | None] = field(default_factory=dict[str, int | None])


def parse_manifest(data: bytes, *, name: str, is_json: bool, defaults: ManifestDefaults) -> ManifestResult:
    """Parse a manifest; `name` is its default id. Errors are in `problems`."""
    document = read_document(data, is_json=is_json)
    if document.problems:
        return ManifestResult(name, None, document.problems)
    found = ManifestReader(document)
    skill_id = found.read_match("id", ID_PATTERN.pattern, ID_FORM, name)
    if skill_id == name and not ID_PATTERN.fullmatch(name):
        found.add_error("id", f"{excerpt(name)} (the name of the file) is not {ID_FORM}", rule="id-form")
    limits = ManifestReader(document, "limits")
    registration = _build_registration(found, limits, document, skill_id, defaults)
    if defaults.in_folder:
        registration = _restrict_folder(found, document, registration, defaults)
    problems = (*found.problems, *limits.problems)
    lines = {key: document.positions.get((key,), (None,))[0] for key in document.fields}
    return ManifestResult(skill_id, None if select_errors(problems) else registration, problems, lines)


def _build_registration(
    found: ManifestReader, limits: ManifestReader, document: ManifestDocument, skill_id: str, defaults: ManifestDefaults
) -> Registration:
    kind = _read_kind(found, defaults)
    return Registration(
        id=skill_id,
        kind=kind,
        entry=_read_entry(found, kind, defaults.entry),
        version=found.read_text("version", defaults.version, max_length=128),
        description=found.read_text("description", defaults.description),
        timeout_ms=found.read_integer("timeout_ms", defaults.timeout_ms, 1, MAX_TIMEOUT_MS),
        allowed_root=_read_allowed_root(found, defaults),
        writable=found.read_flag("writable", default=False),
        input_schema=read_schema(found, "input_schema"),
        output_schema=read_schema(found, "output_schema"),
        environment=_read_environment(found, defaults),
        secrets=found.read_names("secrets", VARIABLE_PATTERN, "a variable name; do not put values here", secret=True),
        limits=_read_limits(found, limits),
        executor=found.read_match("executor", r"[A-Za-z_][\w.:-]{0,199}", "an executor name", defaults.executor),
        warm=SkillStartMethod(found.read_choice("warm", tuple(SkillStartMethod), SkillStartMethod.FORK)),
        preload=found.read_names("preload", MODULE_PATTERN, "a module name"),
        digest=found.read_match("digest", DIGEST_PREFIX + "[0-9a-f]{1,64}", "of the form sha256:HEX"),
        options=_read_options(found, document, kind),
    )


def _restrict_folder(
    found: ManifestReader, document: ManifestDocument, registration: Registration, defaults: ManifestDefaults
) -> Registration:
    """Report fields that only the operator may set, and lower what exceeds the host's own limits."""
    advice = "only the operator of the host may set this; write a manifest with this id for `serve --manifests DIR`"
    options = {name for kind in RUNNER_KINDS.values() for name in kind.options}
    operators = options.union(FIELDS).difference(FOLDER_FIELDS)
    for name in document.fields:
        if name in operators:
            found.add_error(name, advice, rule="field-of-operator")
    if registration.kind and registration.kind not in FOLDER_KINDS:
        message = f"a skill folder runs its own script or program, not {registration.kind}; {advice}"
        found.add_error("type", message, rule="field-of-operator")
    if registration.timeout_ms > defaults.timeout_ms:
        message = f"{registration.timeout_ms:,} is above the limit of the host and lowered to {defaults.timeout_ms:,}"
        found.add_warning("timeout_ms", message, rule="limit-lowered")
    lowered: dict[str, int] = {}
    for each in fields(HostLimits):
        wanted: int | None = getattr(registration.limits, each.name)
        allowed: int | None = getattr(HostLimits(), each.name)
        if allowed is not None and (wanted is None or wanted > allowed):
            lowered[each.name] = allowed
            message = f"{each.name} is above the limit of the host and lowered to {allowed:,}"
            found.add_warning("limits", message, rule="limit-lowered", at=("limits", each.name))
    timeout = min(registration.timeout_ms, defaults.timeout_ms)
    return replace(registration, timeout_ms=timeout, limits=replace(registration.limits, **lowered))


def _read_kind(found: ManifestReader, defaults: ManifestDefaults) -> str:
    if not found.has_field("type") and not found.has_field("runtime") and defaults.kind:
        return defaults.kind
    kind, runtime = found.read_text("type", max_length=64), found.read_text("runtime", max_length=64)
    whole = f"{kind}:{runtime}" if runtime else kind
    if whole in defaults.kinds:
        return whole
    kinds = (*defaults.kinds, *defaults.more_kinds())
    if runtime and whole not in kinds and kind in kinds:
        found.add_warning("runtime", f"is ignored: skills of type {kind} have no runtime", rule="field-unused")
        return kind
    if whole not in kinds:
        _report_unknown_kind(found, kind, kinds)
    return whole


def _report_unknown_kind(found: ManifestReader, kind: str, kinds: Collection[str]) -> None:
    types = tuple(dict.fromkeys(known.partition(":")[0] for known in kinds))
    runtimes = [known.partition(":")[2] for known in kinds if known.startswith(f"{kind}:")]
    if not found.has_field("type"):
        found.add_error("type", f"missing; use one of {', '.join(types)}", rule="field-missing")
    elif kind not in types:
        found.read_choice("type", types, "")
    elif found.has_field("runtime"):
        found.read_choice("runtime", runtimes, "")
    else:
        found.add_error("runtime", f"missing; use one of {', '.join(runtimes)}", rule="field-missing")


def _read_entry(found: ManifestReader, kind: str, default: str) -> str:
    entry, known = found.read_text("entry", default), RUNNER_KINDS.get(kind)
    if not entry:
        message = f"missing; use {known.entry if known else 'the target of the runner'}"
        found.add_error("entry", message, rule="field-missing")
    elif not entry.isprintable():
        found.add_error("entry", f"{excerpt(entry)} contains unprintable characters", rule="entry-form")
    elif known and not known.is_entry(entry):
        found.add_error("entry", f"{excerpt(entry)} is not {known.entry}", rule="entry-form")
    return entry


def _read_allowed_root(found: ManifestReader, defaults: ManifestDefaults) -> Path | None:
    # Missing means the host's; null means none.
    if found.is_null("allowed_root"):
        return None
    written = found.read_text("allowed_root")
    return Path(written) if written else defaults.allowed_root


def _read_environment(found: ManifestReader, defaults: ManifestDefaults) -> dict[str, str]:
    # A map has values; a list names variables of the host's environment.
    if found.is_list("env"):
        names = found.read_names("env", VARIABLE_PATTERN, "a variable name")
        for name in names:
            if SECRET_NAME_PATTERN.search(name):
                found.add_error("env", f"{name} looks like a secret; list it under secrets", rule="secret-in-manifest")
            elif name not in defaults.environment:
                found.add_warning("env", f"{name} is not set in the environment of the host", rule="variable-missing")
        return {name: defaults.environment[name] for name in names if name in defaults.environment}
    values = found.read_variables("env")
    for name, value in values.items():
        if value and SECRET_NAME_PATTERN.search(name):
            message = f"{name} looks like a secret; list it under secrets, and set it in the environment of the host"
            found.add_warning("env", message, rule="secret-in-manifest", at=("env", name))
    return values


def _read_limits(found: ManifestReader, limits: ManifestReader) -> HostLimits:
    found.read_map("limits")
    known = tuple(each.name for each in fields(HostLimits))
    limits.warn_unknown(known)
    default = HostLimits()
    maxima = {"processes": 100_000, "cpu_seconds": MAX_TIMEOUT_MS // 1000, "concurrency": 10_000}
    given = {
        name: limits.read_limit(name, getattr(default, name), maximum=maxima.get(name, _MAX_BYTES)) for name in known
    }
    output = given.pop("output_bytes")
    if output is None:
        limits.add_error("output_bytes", "must have a limit; use an amount such as 5M")
    return HostLimits(output or default.output_bytes, **given)


def _read_options(found: ManifestReader, document: ManifestDocument, kind: str) -> dict[str, Any]:
    own = RUNNER_KINDS[kind].options if kind in RUNNER_KINDS else None
    # The fields of runners from other packages are unknown.
    known = (*FIELDS, *(own if own is not None else document.fields))
    found.warn_unknown(known)
    above = {name: value for name, value in document.fields.items() if name in known and name not in FIELDS}
    return {**above, **found.read_map("options")}
