"""Which files a caller wants from a run, and what becomes of them: plain values. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from openskills.artifacts.ref import checked_name
from openskills.errors import InvalidArgument
from openskills.executors.files.globs import compiled
from openskills.executors.files.mime import is_text
from openskills.executors.spec import MIB

PRIMARY_BYTES = 32 * 1024

_LIMITS = ("max_files", "max_file_bytes", "max_total_bytes")
_KEYS = ("globs", "inline", "save", "name_template", *_LIMITS)
_TOLD = ("answer", "result", "results", "report", "summary", "output", "readme", "index")
_READABLE = ("text/markdown", "text/plain", "text/html", "application/json", "text/csv")


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """Files that match `globs`. With `inline` their content comes back, at most `max_file_bytes` of each and
    `max_total_bytes` in all; with `save` each becomes an artifact, whole, named `name_template` + path."""

    globs: tuple[str, ...]
    inline: bool = True
    save: bool = False
    name_template: str = ""
    max_files: int = 100
    max_file_bytes: int = 4 * MIB
    max_total_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        if not self.globs:
            raise InvalidArgument("outputs.globs", "is empty; write patterns such as out/**")
        compiled(self.globs, run_dir="runs/run", field="outputs.globs")
        checked_name(f"{self.name_template}x", field="outputs.name_template")
        for name in _LIMITS:
            if getattr(self, name) < 0:
                raise InvalidArgument(f"outputs.{name}", "is negative")

    @classmethod
    def parse(cls, value: Mapping[str, object]) -> "OutputSpec":
        """From what a model wrote: `max_files` or `MaxFiles`, in any case; the first spelling wins.

        Raises `InvalidArgument` for an unknown key or a value of another kind.
        """
        given = _given(value)
        globs = given.get("globs")
        if isinstance(globs, str):
            globs = [globs]
        if not isinstance(globs, Sequence) or not all(isinstance(one, str) for one in cast("Sequence[object]", globs)):
            raise InvalidArgument("outputs.globs", "is no list of patterns; write some such as out/**")
        return cls(
            tuple(cast("Sequence[str]", globs)),
            inline=_flag(given, "inline", default=True),
            save=_flag(given, "save", default=False),
            name_template=_template(given),
            **{name: _number(given, name) for name in _LIMITS if given.get(name) is not None},
        )


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One file that a run made. `data` is its content, as far as it was asked for; `truncated` says that a limit cut
    it. `size` is that of the whole file."""

    path: str
    data: bytes = field(repr=False)
    size: int
    mime_type: str
    truncated: bool = False

    @property
    def ref(self) -> str:
        """How it is called in later calls of the same session."""
        return f"workspace://{self.path}"

    def text(self) -> str | None:
        """The content as text, without a last character that was cut in two; None when it is no text."""
        if not is_text(self.data, cut=self.truncated):
            return None
        return self.data.decode("utf-8", "ignore")


def primary(files: Iterable[OutputFile], *, limit: int = PRIMARY_BYTES) -> OutputFile | None:
    """The one file that a reader wants to see first; None when there is none.

    It is text, whole, not blank, and has at most 32 KiB. Among several: a name that says so (`answer`, `result`,
    `report`, `summary`, `output`, `readme`, `index`, in this order), then Markdown, plain text, HTML, JSON, CSV, then
    others, then the one in the fewest directories, then the first by path.
    """
    candidates = [file for file in files if not file.truncated and 0 < len(file.data) <= limit]
    return min((file for file in candidates if (file.text() or "").strip()), key=_rank, default=None)


def _rank(file: OutputFile) -> tuple[int, int, int, str]:
    stem = file.path.rpartition("/")[2].partition(".")[0].lower()
    told = _TOLD.index(stem) if stem in _TOLD else len(_TOLD)
    readable = _READABLE.index(file.mime_type) if file.mime_type in _READABLE else len(_READABLE)
    return told, readable, file.path.count("/"), file.path


def _given(value: Mapping[str, object]) -> dict[str, object]:
    """The values under our names. A key in snake_case goes before the same one without underscores."""
    spellings = {key.replace("_", ""): key for key in _KEYS}
    given: dict[str, object] = {}
    for key, one in sorted(value.items(), key=lambda item: "_" in item[0], reverse=True):
        name = spellings.get(key.lower().replace("_", ""))
        if name is None:
            raise InvalidArgument("outputs", f"has no {key[:80]!r}; it has {', '.join(_KEYS)}")
        given.setdefault(name, one)
    return given


def _flag(given: Mapping[str, object], name: str, *, default: bool) -> bool:
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidArgument(f"outputs.{name}", f"is {type(value).__name__}; write true or false")
    return value


def _number(given: Mapping[str, object], name: str) -> int:
    value = given[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"outputs.{name}", f"is {type(value).__name__}; write a whole number")
    return value


def _template(given: Mapping[str, object]) -> str:
    value = given.get("name_template") or ""
    if not isinstance(value, str):
        raise InvalidArgument("outputs.name_template", f"is {type(value).__name__}; write text such as reports/")
    return value
