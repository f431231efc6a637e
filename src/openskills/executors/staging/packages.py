"""Packages that a skill needs: what it declares, and what its scripts import. Pure.

Declarations are `requirements.txt` (also in `scripts/`), `[project]` of `pyproject.toml`, `package.json`, and the
inline metadata of the script that is run (PEP 723):

# /// script
# requires-python = ">=3.11"
# dependencies = ["httpx"]
# ///

`environments.py` installs them.
"""

import ast
import hashlib
import json
import posixpath
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument

MAX_BLOCK = 64 * 1024

_START = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_END = "# ///"
_TOML_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class ScriptMetadata:
    """A parsed inline metadata block. `line` is its first line in the script, `text` its TOML."""

    dependencies: tuple[str, ...]
    requires_python: str | None
    tool: Mapping[str, Any]
    line: int
    text: str = field(repr=False)


def parse_script_metadata(source: str, *, name: str = "script") -> ScriptMetadata | None:
    """Parse the `script` block of a script; None if it has none. Unclosed blocks are ignored.

    Raises `InvalidArgument` with `name` and the line for a second or invalid block.
    """
    found = [(line, content) for line, kind, content in find_blocks(source) if kind == "script"]
    if not found:
        return None
    if len(found) > 1:
        first, second = found[0][0], found[1][0]
        raise _metadata_error(name, second, f"second `script` block, the first is at line {first}; use only one")
    line, content = found[0]
    text = "\n".join(row[2:] if row.startswith("# ") else row[1:] for row in content)
    if len(text) > MAX_BLOCK:
        raise _metadata_error(name, line, f"the `script` block has more than {MAX_BLOCK:,} characters")
    table = _parse_table(text, name, line)

    def error(key: str, expected: str) -> InvalidArgument:
        rows = enumerate(text.split("\n"), 1)
        offset = next((row for row, content in rows if content.lstrip(" \t['\"").startswith(key)), 0)
        return _metadata_error(name, line + offset, f"`{key}` must be {expected}")

    dependencies, python, tool = table.get("dependencies", []), table.get("requires-python"), table.get("tool", {})
    if not isinstance(dependencies, list) or not all(
        isinstance(item, str) for item in cast("list[object]", dependencies)
    ):
        raise error("dependencies", "a list of strings")
    if python is not None and not isinstance(python, str):
        raise error("requires-python", 'a string like ">=3.11"')
    if not isinstance(tool, dict):
        raise error("tool", "a table, with one table for each tool")
    return ScriptMetadata(tuple(cast("list[str]", dependencies)), python, cast("dict[str, Any]", tool), line, text)


def find_blocks(source: str) -> list[tuple[int, str, list[str]]]:
    """The line, type and content of every closed metadata block.

    Finds the same blocks as the regular expression of the specification, which takes quadratic time for a file of
    opening lines: a block ends at the last closing line of its run of comment lines.
    """
    lines = source.replace("\r\n", "\n").split("\n")
    found: list[tuple[int, str, list[str]]] = []
    place = 0
    while place < len(lines):
        match = _START.fullmatch(lines[place])
        if not match:
            place += 1
            continue
        after = place + 1
        while after < len(lines) and (lines[after] == "#" or lines[after].startswith("# ")):
            after += 1
        end = next((row for row in range(after - 1, place + 1, -1) if lines[row] == _END), None)
        if end is not None:
            found.append((place + 1, match[1], lines[place + 1 : end]))
        # The rest of the run has no closing line for another block.
        place = after
    return found


def _parse_table(text: str, name: str, line: int) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _TOML_LINE.search(str(error))
        # Without a line number, the error is at the end of the block.
        at = line + (int(where[1]) if where else text.count("\n") + 1)
        message = re.sub(r" \(at .*\)$", "", str(error))
        raise _metadata_error(name, at, f"the `script` block is not valid TOML: {message}") from None
    except RecursionError:
        raise _metadata_error(name, line, "the `script` block is nested too deeply") from None


def _metadata_error(name: str, line: int, message: str) -> InvalidArgument:
    return InvalidArgument(name, f"line {line}: {message}")


REQUIREMENTS, PYPROJECT, PACKAGE_JSON = "requirements.txt", "pyproject.toml", "package.json"
MAX_FILE = 1024 * 1024
"""Bytes of a file that declares packages."""

_DIRECTORIES = ("", "scripts/")
_MAX_FILES = 50
_INCLUDE = re.compile(r"(?P<kind>-r|-c|--requirement|--constraint)(?:\s+|\s*=\s*|(?<=-[rc]))(?P<file>\S.*)")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
_REQUIREMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\s*\[[^\]]*\])?\s*(?:$|[<>=!~;@(])[^\n]*")
_HASH = re.compile(r"\s+--hash[= ]\S+")
_NPM_PACKAGE = re.compile(r"(?:@[a-z0-9~_.-]+/)?[a-z0-9~_.-]+(?:@[^\s@]{1,200})?", re.IGNORECASE)


def is_requirement(line: str) -> bool:
    """Whether a line names a package, and contains nothing that an installer could take for an option or a new line."""
    plain = _HASH.sub("", line)
    return line.isprintable() and bool(_REQUIREMENT.fullmatch(plain)) and not re.search(r"\s-", plain)


def has_address(line: str) -> bool:
    """Whether a requirement is a direct reference: `name @ https://...`."""
    return "@" in line.partition(";")[0]


@check_arguments
@dataclass(frozen=True, slots=True)
class PackageSet:
    """Packages of an environment: Python requirements with constraints, npm packages, and `requires_python`.

    Each requirement is a line of a requirements file (`pypdf>=5`, `rich[jupyter]; python_version > "3.11"`), each npm
    package what `npm install` accepts (`docx@9`).
    """

    python: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    requires_python: str | None = None

    def __post_init__(self) -> None:
        """Raises `InvalidArgument` for a requirement that is an option, a path, or something else."""
        for line in self.python:
            if not is_requirement(line):
                raise InvalidArgument("packages", f"{line[:100]!r} is not a requirement; use one such as 'pypdf>=5'")
        for line in self.constraints:
            # A constraint with an address would install something else under the name of a package.
            if not is_requirement(line) or has_address(line):
                raise InvalidArgument("packages", f"{line[:100]!r} is not a constraint; use one such as 'pypdf<6'")
        for package in self.npm:
            if not _NPM_PACKAGE.fullmatch(package):
                raise InvalidArgument("npm", f"{package[:100]!r} is not an npm package; use one such as 'docx@9'")

    @classmethod
    @check_arguments
    def parse(cls, items: Sequence[str]) -> "PackageSet":
        """A set from texts such as `pypdf>=5` and, for npm, `npm:docx@9`."""
        npm = tuple(item.removeprefix("npm:").strip() for item in items if item.startswith("npm:"))
        return cls(tuple(item.strip() for item in items if not item.startswith("npm:")), npm)

    def __bool__(self) -> bool:
        return bool(self.python or self.npm)

    def __or__(self, other: "PackageSet") -> "PackageSet":
        """The packages of both; each requirement once."""
        return PackageSet(
            tuple(dict.fromkeys((*self.python, *other.python))),
            tuple(dict.fromkeys((*self.npm, *other.npm))),
            tuple(dict.fromkeys((*self.constraints, *other.constraints))),
            other.requires_python or self.requires_python,
        )

    def __str__(self) -> str:
        limits = (f"{line} (constraint)" for line in self.constraints)
        return ", ".join((*self.python, *(f"npm:{package}" for package in self.npm), *limits))

    @property
    def addresses(self) -> tuple[str, ...]:
        """The requirements that name an address instead of a version."""
        return tuple(filter(has_address, self.python))

    @property
    def digest(self) -> str:
        """Identifies the set, whatever the order of its packages."""
        parts = [sorted(self.python), sorted(self.npm), sorted(self.constraints), self.requires_python]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class DeclaredPackages:
    """What a skill or one of its scripts declares, in which files; `warnings` name what is not supported."""

    packages: PackageSet = PackageSet()
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_declared_packages(files: Mapping[str, bytes], *, script: str | None = None) -> DeclaredPackages:
    """The packages that a skill declares, for a command that runs `script`.

    `files` has the skill's files by path, at least those of `find_declaration_files` and the script. A script whose
    inline metadata has dependencies needs exactly these. Raises `InvalidArgument` for an invalid declaration.
    """
    if script is not None:
        name = posixpath.normpath(script)
        # The script may have another encoding; the block is ASCII in all common ones.
        metadata = parse_script_metadata(files.get(name, b"").decode("utf-8", "replace"), name=name)
        if metadata is not None and metadata.dependencies:
            lines, warnings = _select_requirements(metadata.dependencies, script)
            packages = PackageSet(lines, requires_python=metadata.requires_python)
            return DeclaredPackages(packages, (name,) if lines else (), warnings)
    found, sources, warnings = PackageSet(), list[str](), list[str]()
    for directory in _DIRECTORIES:
        name = f"{directory}{REQUIREMENTS}"
        if name not in files:
            name = f"{directory}{PYPROJECT}"
            lines, skipped = _select_requirements(_read_project_requirements(files, name), name)
            declared = PackageSet(lines)
        else:
            declared, skipped = _read_requirements(files, name)
        npm = PackageSet(npm=_read_npm_dependencies(files, f"{directory}{PACKAGE_JSON}"))
        sources += [name] * bool(declared) + [f"{directory}{PACKAGE_JSON}"] * bool(npm)
        found, warnings = found | declared | npm, [*warnings, *skipped]
    return DeclaredPackages(found, tuple(sources), tuple(warnings))


def find_declaration_files(files: Mapping[str, bytes]) -> Iterator[str]:
    """The names of the files that declare packages, including files before included ones; they may be missing.

    The caller reads them one by one into `files` while iterating.
    """
    waiting, seen = [f"{directory}{REQUIREMENTS}" for directory in _DIRECTORIES], set[str]()
    while waiting and len(seen) < _MAX_FILES:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting += [path for _, path in _find_includes(name, _decode_file(files, name))]
    for directory in _DIRECTORIES:
        yield f"{directory}{PYPROJECT}"
        yield f"{directory}{PACKAGE_JSON}"


def find_script(argv: Sequence[str]) -> str | None:
    """The Python script that a command line runs, `python3 x.py …` or `./x.py …`; None for anything else."""
    if argv and argv[0].endswith(".py"):
        return argv[0]
    if len(argv) > 1 and _PYTHON.fullmatch(argv[0]) and argv[1].endswith(".py") and not argv[1].startswith("-"):
        return argv[1]
    return None


def find_command_script(command: str | Sequence[str]) -> str | None:
    """The Python script that a command starts with; None for anything else."""
    if not isinstance(command, str):
        return find_script(command)
    try:
        return find_script(shlex.split(command))
    except ValueError:
        return None


def _read_requirements(files: Mapping[str, bytes], first: str) -> tuple[PackageSet, tuple[str, ...]]:
    """The requirements of a file and of those that it includes, and warnings about other lines."""
    waiting, seen = [("-r", first)], set[str]()
    lines: dict[str, list[str]] = {"-r": [], "-c": []}
    warnings: list[str] = []
    while waiting and len(seen) < _MAX_FILES:
        kind, name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        text = _decode_file(files, name)
        found, skipped = _select_requirements(
            (line for line in _split_lines(text) if not _INCLUDE.fullmatch(line)), name
        )
        if kind == "-c":
            skipped += tuple(
                f"{name}: {line[:100]!r} is ignored: it has an address" for line in filter(has_address, found)
            )
            found = tuple(line for line in found if not has_address(line))
        lines[kind] += found
        warnings += skipped
        waiting += [("-c" if "-c" in (kind, included) else "-r", path) for included, path in _find_includes(name, text)]
    return PackageSet(tuple(lines["-r"]), constraints=tuple(lines["-c"])), tuple(warnings)


def _select_requirements(lines: Iterable[str], source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines that name packages, and warnings about the others."""
    kept: list[str] = []
    warnings: list[str] = []
    for text in lines:
        line = re.sub(r"[ \t]+", " ", text)
        if is_requirement(line):
            kept.append(line)
        else:
            warnings.append(f"{source}: {line[:100]!r} is ignored; only names of packages are supported")
    return tuple(kept), tuple(warnings)


def _read_project_requirements(files: Mapping[str, bytes], name: str) -> tuple[str, ...]:
    """The dependencies of `[project]`."""
    try:
        table = tomllib.loads(_decode_file(files, name))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidArgument(name, f"is not valid TOML: {error}") from None
    project: object = table.get("project", {})
    found: object = cast("dict[str, object]", project).get("dependencies", []) if isinstance(project, dict) else []
    names = cast("list[object]", found) if isinstance(found, list) else None
    if names is None or not all(isinstance(one, str) for one in names):
        raise InvalidArgument(name, "`project.dependencies` must be a list of requirements")
    return tuple(cast("list[str]", names))


def _read_npm_dependencies(files: Mapping[str, bytes], name: str) -> tuple[str, ...]:
    if name not in files:
        return ()
    try:
        table: object = json.loads(_decode_file(files, name))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(name, f"is not valid JSON: {error}") from None
    found: object = cast("dict[str, object]", table).get("dependencies", {}) if isinstance(table, dict) else None
    if not isinstance(found, dict) or not all(
        isinstance(one, str) for one in cast("dict[str, object]", found).values()
    ):
        raise InvalidArgument(name, "`dependencies` must be an object with a version for each package")
    versions = cast("dict[str, str]", found)
    # npm separates name and version with `@`; a range such as `>=1 <3` has spaces.
    return tuple(
        f"{package}@{version.replace(' ', '')}" if version else package for package, version in versions.items()
    )


def _find_includes(name: str, text: str) -> list[tuple[str, str]]:
    """The files in the skill that a requirements file includes, each with `-r` or `-c`."""
    found: list[tuple[str, str]] = []
    for line in _split_lines(text):
        match = _INCLUDE.fullmatch(line)
        words = _split_words(match["file"]) if match else []
        if match and words and "://" not in words[0]:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), words[0]))
            found.append(("-c" if "c" in match["kind"].strip("-")[:1] else "-r", path))
    return [(kind, path) for kind, path in found if not path.startswith(("/", ".."))]


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _split_lines(text: str) -> list[str]:
    joined = text.replace("\r\n", "\n").replace("\\\n", " ")
    return [line for row in joined.split("\n") if (line := _COMMENT.sub("", row).strip())]


def _decode_file(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files.get(name, b"").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(name, f"is not UTF-8 (byte {error.start})") from None


_DIFFERENT_NAMES = """
PIL pillow  yaml pyyaml  cv2 opencv-python-headless  bs4 beautifulsoup4  sklearn scikit-learn  skimage scikit-image
docx python-docx  pptx python-pptx  fitz pymupdf  dotenv python-dotenv  dateutil python-dateutil  Crypto pycryptodome
jwt pyjwt  magic python-magic  serial pyserial  attr attrs  git gitpython  OpenSSL pyopenssl  usb pyusb  zmq pyzmq
psycopg2 psycopg2-binary  MySQLdb mysqlclient  ruamel ruamel.yaml  slugify python-slugify  pkg_resources setuptools
ffmpeg ffmpeg-python  OpenGL pyopengl  telegram python-telegram-bot  jose python-jose  multipart python-multipart
markdown_it markdown-it-py  googleapiclient google-api-python-client
"""
_DISTRIBUTIONS: Mapping[str, str] = dict(
    zip(_DIFFERENT_NAMES.split()[::2], _DIFFERENT_NAMES.split()[1::2], strict=True)
)
"""Distributions whose name differs from that of the module that is imported."""


def distribution_from_module(module: str) -> str:
    """The distribution that probably provides a module: `PIL.Image` is in `pillow`."""
    top = module.partition(".")[0]
    if module.startswith("google.genai"):
        return "google-genai"
    if module.startswith("google.protobuf"):
        return "protobuf"
    return _DISTRIBUTIONS.get(top, top.replace("_", "-").lower())


def find_imports(files: Mapping[str, bytes]) -> dict[str, str]:
    """The modules that the skill's Python files import and that are neither its own nor in the standard library.

    Maps each top-level name to the first file that imports it. Files that cannot be parsed are skipped; optional
    imports, in a `try` that catches `ImportError`, are not included.
    """
    own = {posixpath.basename(name).removesuffix(".py") for name in files if name.endswith(".py")}
    own |= {part for name in files for part in posixpath.dirname(name).split("/")}
    found: dict[str, str] = {}
    for name, data in sorted(files.items()):
        if not name.endswith(".py"):
            continue
        try:
            tree = ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for module in _find_imported_modules(tree.body):
            top = module.partition(".")[0]
            if top and top not in own and top not in sys.stdlib_module_names:
                found.setdefault(module if top == "google" else top, name)
    return found


def _find_imported_modules(statements: Iterable[ast.AST]) -> Iterator[str]:
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
        elif isinstance(node, ast.Try) and any(_catches_import_error(handler) for handler in node.handlers):
            waiting += [*node.handlers, *node.orelse, *node.finalbody]
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            waiting += ast.iter_child_nodes(node)


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    caught = ast.dump(handler.type) if handler.type is not None else "ImportError"
    # A handler that ends the program or raises again does not make the import optional.
    ends = any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and "exit" in ast.dump(node.func))
        for statement in handler.body
        for node in ast.walk(statement)
    )
    return not ends and ("ImportError" in caught or "ModuleNotFoundError" in caught or "'Exception'" in caught)
