"""Rules about files and their places. Each takes paths or texts and returns its violations, worded for a person."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath

from tests.architecture.project import Source

DRAWERS = re.compile(r"_*(utils?|commons?|helpers?|misc|shared)\d*")
MACHINE_PATH = re.compile(r"(?<![\w./~$}-])/(?:work|root|home/(?!user\b|you\b)[a-z_][\w-]*)(?=/)")
DELIBERATE = "a path on purpose"
README_LINES = 150
NOUNS = frozenset({"routing", "settings", "string"})
"""Words that end like a gerund and are the usual noun."""
PARTICIPLES = frozenset(
    re.findall(
        r"\w+",
        "begun built chosen done drawn found given gone heard held kept known left lost made meant played put said "
        "seen sent shown taken told written",
    )
)
"""Irregular ones, which no ending shows."""
README_FIRST = ("make demo", "make test")
FOREIGN_IDIOM = re.compile(r"(?:\b|_)((?:is|are)[ _]no[ _](?!longer|more)[a-z]\w*)", re.IGNORECASE)
THERE_IS = re.compile(r"there[ _]?\W*(?:is|are)[ _]no", re.IGNORECASE)
PLAIN_DECORATORS = frozenset(
    {"property", "cached_property", "staticmethod", "classmethod", "cache", "contextmanager", "asynccontextmanager"}
)
"""Decorators that register nothing: what they decorate still needs a caller."""


def drawers(paths: Iterable[str]) -> list[str]:
    """A module is named after a concept; `utils` is a drawer."""
    return [
        f"{path}: {part!r} names no concept; name the noun it is about"
        for path in paths
        for part in PurePosixPath(path).with_suffix("").parts
        if DRAWERS.fullmatch(part)
    ]


def too_many_modules(paths: Iterable[str], limit: int) -> list[str]:
    """The number of modules, without `__init__.py`, may only go down; raising the limit needs a decision record."""
    count = sum(PurePosixPath(path).name != "__init__.py" for path in paths)
    return [f"{count} modules, {limit} is the most; merge what is one idea"] if count > limit else []


def deep_folders(paths: Iterable[str]) -> list[str]:
    """Folders are nested at most two levels deep."""
    return [f"{path}: more than two levels of folders" for path in paths if len(PurePosixPath(path).parts) > 3]


def odd_module_names(paths: Iterable[str]) -> list[str]:
    """A module is named by a noun or a verb of the field, not by a gerund or a participle."""
    return [
        f"{path}: {stem!r} is a gerund or a participle; use the noun"
        for path in paths
        if (stem := PurePosixPath(path).stem) not in NOUNS
        and (re.fullmatch(r"\w+(ing|ed)s?", stem) or stem.rpartition("_")[2] in PARTICIPLES)
    ]


def repeated_class_names(modules: Iterable[Source]) -> list[str]:
    """Each class name is defined once in the package, private ones too: `_Entry` and `Entry` are the same name."""
    places: dict[str, list[str]] = {}
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(module.path)
    return [f"class {name} is defined in {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def two_way_imports(imports: Mapping[str, Iterable[str]], packages: Collection[str]) -> list[str]:
    """No two sub-packages import each other. A package and its own sub-package may."""
    edges: set[tuple[str, str]] = set()
    for module, targets in imports.items():
        for target in targets:
            edges.add((_package_of(module, packages), _package_of(target, packages)))
    edges = {edge for edge in edges if all(edge)}
    return [
        f"{one} and {other} import each other"
        for one, other in sorted(edges)
        if one < other and (other, one) in edges and not other.startswith(f"{one}.")
    ]


def _package_of(module: str, packages: Collection[str]) -> str:
    while module and module not in packages:
        module = module.rpartition(".")[0]
    return module


def untested(modules: Iterable[Source], imported: Collection[str], tests: Collection[str]) -> list[str]:
    """Each module with code is covered: a test imports it, or a test file of its name drives it in another process.

    `imported` has the dotted names of modules that tests import from, `tests` the paths of the test files.
    """
    return [
        f"{module.path}: no test imports it, and no test file has its name"
        for module in modules
        if _has_code(module) and _dotted(module.path) not in imported and not _has_test_file(module.path, tests)
    ]


def _has_test_file(module: str, tests: Collection[str]) -> bool:
    path = PurePosixPath(module)
    return any(test.startswith(path.parts[0]) and test.endswith(f"/test_{path.stem}.py") for test in tests)


def _dotted(path: str) -> str:
    parts = ("openskills", *PurePosixPath(path).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unused_names(modules: Iterable[Source], elsewhere: Collection[str]) -> list[str]:
    """A public function, method or setting is used by the package or documented; not only called by tests.

    `elsewhere` has the words of documentation, examples and benchmarks. What a decorator registers is used by it. Lists
    of public names, docstrings and comments are not uses; neither is what `settings.py` does with its own settings.
    """
    sources = list(modules)
    used: set[str] = set()
    for source in sources:
        own = {name for node, name in _public_members(source) if isinstance(node, ast.AnnAssign)}
        used |= _used_words(source) - own
    return [
        source.at(node, f"nothing but tests uses {name}; remove it or connect it")
        for source in sources
        for node, name in _public_members(source)
        if name not in used and name not in elsewhere
    ]


def _public_members(source: Source) -> Iterator[tuple[ast.AST, str]]:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_") and all(
                ast.unparse(one) in PLAIN_DECORATORS for one in node.decorator_list
            ):
                yield node, node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and source.path == "settings.py":
            yield node, node.target.id


def _used_words(source: Source) -> set[str]:
    """Names that are read, attributes, and the words of texts, which may be looked up or be a template."""
    is_list = source.path.endswith("__init__.py")
    docstrings = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    found: set[str] = set()
    for node in source.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not is_list
            and id(node) not in docstrings
        ):
            found.update(re.findall(r"\w+", node.value))
    return found


def twin_classes(modules: Iterable[Source]) -> list[str]:
    """No class exists once for waiting and once for awaiting, wherever the two are kept."""
    names = {
        node.name: module.at(node, node.name)
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
    }
    return [
        f"{place} is the twin of {stem}"
        for name, place in names.items()
        if (stem := re.sub(r"^(Async|Sync)|(Async|Sync)$", "", name)) != name and stem in names
    ]


def cycle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """The modules of one import cycle, first and last being the same; empty when there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def machine_paths(path: str, text: str) -> list[str]:
    """No file names a place on somebody's machine; a test that needs one says `a path on purpose` on that line."""
    return [
        f"{path}:{number}: names {match.group()}/, a place on somebody's machine"
        for number, line in enumerate(text.splitlines(), 1)
        if (match := MACHINE_PATH.search(line)) and not (path.startswith("tests/") and DELIBERATE in line)
    ]


def foreign_idioms(path: str, text: str) -> list[str]:
    """Texts say `not a number` or `invalid number`, not the third form, so that they can be found by searching."""
    return [
        f"{path}:{number}: {match[1]!r}: write `not a ...`, `invalid ...` or `unknown ...`"
        for number, line in enumerate(text.splitlines(), 1)
        if (match := FOREIGN_IDIOM.search(line)) and not THERE_IS.search(line)
    ]


def impure_pins(path: str, text: str) -> list[str]:
    """Constraints hold names and versions; never where a package came from."""
    pin = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+(\s*;.*)?")
    return [
        f"{path}:{number}: {line!r} is not name==version"
        for number, line in enumerate(text.splitlines(), 1)
        if "://" in line or (line.strip() and not line.startswith("#") and not pin.fullmatch(line))
    ]


def addresses(path: str, text: str) -> list[str]:
    """Nothing that pip or another installer reads names a registry."""
    words = re.compile(r"://|--(extra-)?index-url|--find-links|--trusted-host")
    return [
        f"{path}:{number}: names a place to download from"
        for number, line in enumerate(text.splitlines(), 1)
        if words.search(line)
    ]


def readme(text: str) -> list[str]:
    """Short, and the first thing to try comes first."""
    lines = text.splitlines()
    faults = [f"README.md: {len(lines)} lines, {README_LINES} is the most"] if len(lines) > README_LINES else []
    if commands(text)[:2] != list(README_FIRST):
        faults.append(f"README.md: the first two commands are {commands(text)[:2]}, not {list(README_FIRST)}")
    return faults


def commands(markdown: str) -> list[str]:
    """The commands in fenced shell blocks, without prompts and comments."""
    found: list[str] = []
    fence: str | None = None
    for line in markdown.splitlines():
        if line.startswith("```"):
            fence = line.removeprefix("```").strip() if fence is None else None
        elif fence in {"", "bash", "sh", "shell", "console"}:
            found.append(line.removeprefix("$ ").partition(" #")[0].strip())
    return [line for line in found if line and not line.startswith("#")]


def undocumented(names: Iterable[str], reference: str) -> list[str]:
    """Every public name is a heading of the reference or stands there in a code span."""
    lines = reference.splitlines()
    places = [line for line in lines if line.startswith("#")]
    places += [span for line in lines for span in re.findall(r"`([^`]+)`", line)]
    words = {word for place in places for word in re.findall(r"\w+", place)}
    return [f"{name} is in no heading and no code span of docs/reference/" for name in names if name not in words]


def deep_imports(text: str, packages: Collection[str]) -> list[str]:
    """Documentation and examples import from packages and from modules at the top, never from modules inside."""
    found = dict.fromkeys(re.findall(r"^\s*(?:>>> )?(?:from|import) (openskills(?:\.\w+)+)", text, re.MULTILINE))
    return [f"{name} is inside of a package" for name in found if name.count(".") > 1 and name not in packages]


def _has_code(module: Source) -> bool:
    return any(_does_something(node) for node in module.nodes)


def _does_something(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(not (isinstance(step, ast.Pass) or _is_constant(step)) for step in node.body)


def _is_constant(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)
