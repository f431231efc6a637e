"""Rules about the text of one module. Each takes a `Source` and returns its violations, worded for a person."""

import ast
import re
from collections.abc import Iterator
from itertools import combinations

from tests.architecture.names import imported, uses_of
from tests.architecture.project import Source

MAX_LINES = 800
HOOK_STATEMENTS = 6
ENVIRONMENT = (
    "os.environ",
    "os.environb",
    "os.getenv",
    "os.getenvb",
    "os.putenv",
    "os.unsetenv",
    "os.path.expandvars",
)
CHILD_PROCESSES = (
    "subprocess",
    "multiprocessing",
    "pty.fork",
    "pty.spawn",
    "os.fork*",
    "os.exec*",
    "os.spawn*",
    "os.posix_spawn*",
    "os.system",
    "os.popen",
    "asyncio.create_subprocess*",
    "asyncio.subprocess",
    "concurrent.futures.ProcessPoolExecutor",
)
IMPURE = frozenset(
    {
        *("asyncio", "http", "httpx2", "io", "os", "pathlib", "random", "secrets", "shutil"),
        *("socket", "subprocess", "tempfile", "threading", "time", "urllib"),
    }
)
IMPURE_CALLS = frozenset({"open", "print", "input"})
MOCKS = ("unittest.mock", "mock", "pytest_mock")
LANGCHAIN_HOOKS = frozenset(
    hook
    for name in (
        "before_agent",
        "before_model",
        "after_model",
        "after_agent",
        "wrap_model_call",
        "wrap_tool_call",
    )
    for hook in (name, f"a{name}")
)
"""What LangChain calls a middleware by, each in two forms: it takes the one or the other by how the agent is called."""


def too_long(source: Source) -> list[str]:
    """A file has at most 800 lines."""
    lines = len(source.text.splitlines())
    return (
        [f"{source.path}: {lines} lines; split it into two ideas, {MAX_LINES} is the most"] if lines > MAX_LINES else []
    )


def environment_reads(source: Source) -> list[str]:
    """The environment is read in settings.py and passed on as a value.

    A skill's script is not our process: for it the variables are what its host tells it, read in one place, too.
    """
    readers = ("settings.py", "skillkit/entry.py")
    return [] if source.path in readers or is_program(source) else uses_of(source, ENVIRONMENT)


def child_processes(source: Source) -> list[str]:
    """Child processes are started in subprocesses.py."""
    return [] if source.path == "subprocesses.py" or is_program(source) else uses_of(source, CHILD_PROCESSES)


def is_program(source: Source) -> bool:
    """Whether this file runs by itself, in a process of its own, and is not part of the host."""
    return source.path.startswith("executors/programs/")


def tied_programs(source: Source) -> list[str]:
    """Programs that run by themselves import nothing of ours: where they run, it may not be there.

    Parts of one program may name each other for type checkers.
    """
    lines = (line.strip() for line in source.text.splitlines()) if is_program(source) else ()
    others = (line for line in lines if line.startswith(("from openskills", "import openskills")))
    return [line for line in others if not line.startswith("from openskills.executors.programs.")]


def impure(source: Source) -> list[str]:
    """A pure module imports nothing that does I/O, waits or rolls dice, and opens nothing."""
    imports = [
        source.at(node, f"a pure module imports {name}")
        for node, name in imported(source)
        if name.partition(".")[0] in IMPURE
    ]
    calls = [
        source.at(node, f"a pure module calls {node.func.id}()")
        for node in source.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS
    ]
    return imports + calls


def unfinished(source: Source) -> list[str]:
    """What is in the tree is done."""
    notes = [
        f"{source.path}:{number}: {match.group()}; finish it or open an issue"
        for number, line in enumerate(source.text.splitlines(), 1)
        if (match := re.search(r"\b(TODO|FIXME|XXX)\b", line))
    ]
    stubs = [
        source.at(node, "raises NotImplementedError; finish it, or make it a Protocol")
        for node in source.nodes
        if isinstance(node, ast.Raise) and node.exc and ast.unparse(node.exc).startswith("NotImplementedError")
    ]
    return notes + stubs


def broad_excepts(source: Source) -> list[str]:
    """Errors are caught by name. A handler that ends in a bare `raise` only cleans up, so it may be broad."""
    handlers = [
        source.at(node, "catches everything; name what can be handled here")
        for node in source.nodes
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not _raises_again(node)
    ]
    suppressed = [
        source.at(node, "suppresses everything; name what can be handled here")
        for node in source.nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"suppress", "contextlib.suppress"}
        and any(_is_broad(argument) for argument in node.args)
    ]
    return handlers + suppressed


def mocks(source: Source) -> list[str]:
    """Tests use the real thing; nothing is replaced behind the back of the code under test."""
    # Most files do not even have these words, and taking all of them apart takes seconds.
    if not re.search("mock|setattr|delattr", source.text):
        return []
    patches = [
        source.at(node, "replaces an attribute; pass the real thing in instead")
        for node in source.nodes
        if isinstance(node, ast.Attribute)
        and node.attr in {"setattr", "delattr"}
        and isinstance(node.value, ast.Name)
        and node.value.id in {"monkeypatch", "mp"}
    ]
    fixtures = [
        source.at(node, "asks for a mocker; use the real thing")
        for node in source.nodes
        if isinstance(node, ast.arg) and node.arg == "mocker"
    ]
    return [*uses_of(source, MOCKS), *patches, *fixtures]


def twins(source: Source) -> list[str]:
    """Nothing exists once for waiting and once for awaiting: not in a module or class, not in sibling classes."""
    classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
    found = [
        source.at(second, f"{second.name} is the twin of {first.name}; keep the async one, callers use sync.run()")
        for scope in (source.tree, *classes)
        for first, second in combinations(_functions(scope), 2)
        if _are_twins(first, second) and not _are_demanded(source, scope, first, second)
    ]
    for left, right in combinations(classes, 2):
        if _are_siblings(left, right):
            found += [
                source.at(two, f"{right.name}.{two.name} is the twin of {left.name}.{one.name}")
                for one in _functions(left)
                for two in _functions(right)
                if _is_async(one) != _is_async(two) and _stem(one.name) == _stem(two.name)
            ]
    return found


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(scope: ast.Module | ast.ClassDef) -> Iterator[_Function]:
    return (node for node in scope.body if isinstance(node, _Function))


def _is_async(function: _Function) -> bool:
    return isinstance(function, ast.AsyncFunctionDef)


def _stem(name: str) -> str:
    return re.sub(r"^(a?sync_)|(_a?sync)$", "", name).strip("_")


def _are_twins(first: _Function, second: _Function) -> bool:
    one, two = first.name.strip("_"), second.name.strip("_")
    if one != two and _stem(one) == _stem(two):
        return True
    # `aload` beside `load` is a twin; `apart` beside `part` is a word, so one of the two has to be async.
    # __aenter__ beside __enter__ is the same thing in special clothes.
    return (one == f"a{two}" or two == f"a{one}") and (
        _is_async(first) != _is_async(second) or first.name.startswith("__")
    )


def _are_demanded(source: Source, scope: ast.Module | ast.ClassDef, first: _Function, second: _Function) -> bool:
    """Whether the two are hooks of a middleware of LangChain, whose interface has both; each is a few lines at most."""
    # A subclass of nothing implements no interface, and a long hook is an implementation that exists twice.
    if not source.path.startswith("adapters/langchain/") or not isinstance(scope, ast.ClassDef) or not scope.bases:
        return False
    pair = (first, second)
    return all(one.name in LANGCHAIN_HOOKS and len(one.body) <= HOOK_STATEMENTS for one in pair)


def _are_siblings(left: ast.ClassDef, right: ast.ClassDef) -> bool:
    named = (re.sub(r"^(Async|Sync)|(Async|Sync)$", "", node.name) for node in (left, right))
    if len(set(named)) == 1:
        return True
    bases = [{ast.unparse(base) for base in node.bases} - {"Protocol", "object"} for node in (left, right)]
    return bool(bases[0] & bases[1])


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_is_broad(one) for one in caught.elts)
    return isinstance(caught, ast.Name) and caught.id in {"Exception", "BaseException"}


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None
