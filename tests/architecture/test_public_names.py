"""The public names: few, all there, each with its contract and a place in the reference."""

import ast
import enum
import inspect
import subprocess
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module, metadata
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, cast

import pytest

import openskills
from openskills.arguments import check_arguments
from openskills.artifacts import DirectoryObjectStore, S3ObjectStore
from openskills.catalog import Catalog, CatalogSnapshot
from openskills.errors import InvalidArgument
from openskills.executors import PackageSet
from openskills.lazy import lazy_exports
from openskills.runtime import SkillRuntime, SkillSession
from openskills.settings import Settings
from tests.architecture.project import PACKAGE, ROOT
from tests.architecture.tree_rules import deep_imports, undocumented

ADAPTERS = {
    f"openskills.adapters.{name}" for name in ("anthropic_worker", "langchain", "mcp", "openai_agents", "pydantic_ai")
}
NAMES = [name for name in openskills.__all__ if name != "__version__"]


def test_there_are_at_most_30_public_names() -> None:
    assert len(openskills.__all__) <= 30
    assert len(set(openskills.__all__)) == len(openskills.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_had_and_has_a_docstring(name: str) -> None:
    value: object = getattr(openskills, name)
    doc = inspect.getdoc(value) or ""
    # A dataclass without docstring shows its signature there.
    assert doc, f"{name} has no docstring"
    assert not doc.startswith(f"{name}("), f"{name} has no docstring"


def test_every_public_name_is_in_the_reference() -> None:
    pages = sorted((ROOT / "docs" / "reference").rglob("*.md"))
    missing = undocumented(NAMES, "\n".join(page.read_text("utf-8") for page in pages))
    assert not missing, "\n".join(missing)


def test_a_name_is_in_the_reference_only_as_heading_or_code() -> None:
    reference = "# `Catalog`\n\n## Skill\n\nUse `parse(text)` and Problem, or `Severity.ERROR`.\n"
    assert undocumented(["Catalog", "Skill", "parse", "Severity"], reference) == []
    assert len(undocumented(["Problem", "Cat", "ERR"], reference)) == 3


def test_documentation_and_examples_import_from_packages_only() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    found = {page.name: deep_imports(page.read_text("utf-8"), ADAPTERS) for page in pages}
    assert not any(found.values()), {name: faults for name, faults in found.items() if faults}


def test_an_import_from_inside_of_a_package_is_found() -> None:
    text = "from openskills.catalog.skill import Skill\nimport openskills.sync\n  from openskills.catalog import Hit\n"
    assert deep_imports(text, ()) == ["openskills.catalog.skill is inside of a package"]


def test_dir_shows_the_public_names() -> None:
    assert set(openskills.__all__) <= set(dir(openskills))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'openskills' has no attribute 'Katalog'"):
        _: object = getattr(openskills, "Katalog")  # noqa: B009


def test_the_version_is_the_one_of_the_distribution() -> None:
    assert openskills.__version__ == metadata.version("openskill-runtime")


def test_type_checkers_see_the_same_names_as_the_interpreter() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module or "" for node in imports for alias in node.names}
    assert seen.keys() == set(openskills.__all__)
    for name, module in seen.items():
        assert getattr(openskills, name) is getattr(import_module(module), name), name


PACKAGES = (
    *("agent", "artifacts", "catalog", "executors", "host", "prompt", "runtime", "session", "skillkit", "skillmd"),
    *("telemetry", "testing", "tools"),
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_listed_name_can_be_imported_and_is_shown_by_dir(package: str) -> None:
    module = import_module(f"openskills.{package}")
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_hidden_by_a_module_of_the_same_name(package: str) -> None:
    module = import_module(f"openskills.{package}")
    program = (
        f"import openskills.{package} as p; print(*(n for n in p.__all__ if type(getattr(p, n)).__name__ == 'module'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not done.stdout.split(), module


def test_an_unknown_name_is_an_attribute_error_that_names_the_package() -> None:
    _, get, list_names = lazy_exports("openskills", {"catalog.catalog": ("Catalog",)})
    with pytest.raises(AttributeError, match="module 'openskills' has no attribute 'Katalog'"):
        get("Katalog")
    assert "Catalog" in list_names()


# Values that OpenSkill returns or passes to functions of the user; nobody configures anything with them.
RESULTS = {
    *("Overview", "Problem", "Resource", "Skill", "SkillManifest", "SkillSession", "CatalogSnapshot"),
    *("Hit", "ValidationResult", "Artifact", "ArtifactReader", "ArtifactRef", "SweepResult"),
    *(
        "ApprovalRequest",
        "CommandResult",
        "ApprovalQuestion",
        "OutputFile",
        "RunResult",
        "PackageEnvironment",
        "Outcome",
        "Run",
    ),
    *(
        "RunRecord",
        "Event",
        "SkillState",
        "Branch",
        "TextDelta",
        "ModelRequest",
        "Usage",
        "ToolContext",
        "Count",
        "JsonFormatter",
    ),
    *("Span", "ModelServerRequest", "ResetReply"),
    *("AppendResult", "Call", "Registration", "Session", "SessionInfo"),
    # Typed dicts of the LangChain middleware.
    *("CheckpointInfo", "LeaseRecord", "ObjectInfo", "SessionLease"),
    *("ResourceMetadata", "SkillMetadata", "SkillsState"),
}


def public_classes() -> Iterator[type]:
    """Each public class that takes options. `skillkit` is for scripts and only has the standard library."""
    found: dict[type, None] = {}
    for package in ("openskills", *(f"openskills.{one}" for one in PACKAGES), *sorted(ADAPTERS)):
        module = import_module(package)
        for name in () if package.endswith("skillkit") else module.__all__:
            value: object = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("openskills") and name not in RESULTS:
                found[value] = None
    for one in found:
        is_protocol: bool = getattr(cast("Any", one), "_is_protocol", False)
        if not issubclass(one, enum.Enum | BaseException) and not is_protocol:
            yield one


def wrong_values(hint: object) -> Iterator[object]:
    """Mistakes that a user makes with an argument of this type."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)
    plain = {kind for kind in kinds if isinstance(kind, type)}
    if not plain.isdisjoint({object}) or Any in kinds:
        return
    yield object()
    if str not in plain:
        yield "rm"
    if bool not in plain:
        yield True
    if float not in plain:
        yield 2.5
    if not plain.isdisjoint({int, float}):
        yield -1
        yield float("nan")
    for kind in kinds:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Literal or not isinstance(origin, type) or not issubclass(origin, Iterable):
            continue
        if issubclass(origin, Mapping) and inner[1] is not Any:
            yield {"a": next(wrong_values(inner[1]))}
        elif not issubclass(origin, Mapping) and (wrong := [*wrong_values(inner[0])]):
            yield from ([one] for one in wrong)


def test_every_option_of_every_public_class_refuses_wrong_types_by_name() -> None:
    accepted: list[str] = []
    options = 0
    for one in public_classes():
        hints = typing.get_type_hints(inspect.unwrap(one.__init__), vars(sys.modules[one.__module__]))
        for field in inspect.signature(one).parameters:
            for wrong in wrong_values(hints.get(field, object)):
                options += 1
                try:
                    # Wrong types are reported before missing arguments.
                    one(**{field: wrong})
                except InvalidArgument as error:
                    if error.field.startswith(field):
                        continue
                except TypeError:
                    pass
                accepted.append(f"{one.__module__}: {one.__name__}({field}={wrong!r})")
    assert not accepted, "\n".join(accepted)
    assert options > 500


# Helpers for authors of stores, runners and models: values go in and out of them, and nobody configures anything.
HELPERS = {
    *("parse", "validate", "unwrap", "extract_input", "new_run_id", "normalize_outcome", "success_outcome"),
    *("tools", "system_text", "ask_by_interrupt", "disclosed_skill_tool_names", "loaded_skills", "summarise_by_rule"),
    *("check_mime_type", "check_version", "normalize_name", "parse_ref", "select_version", "split_content"),
    *("apply_delta", "build_append_result", "check_id", "docs_key", "event_from_json", "event_to_json", "format_array"),
    *("loaded_key", "loaded_prefix", "new_event", "order_key", "parse_array", "sort_latest_first", "take_lease"),
    *("to_milliseconds", "apply_rules", "lint_skill", "relax_problems"),
    *("bind", "count", "counters", "execute_tool", "span", "trace_id", "event"),
}
# Methods that take several values; text would be a sequence of letters.
METHODS: tuple[Callable[..., Any], ...] = (
    Catalog.from_paths,
    Catalog.reveal,
    CatalogSnapshot.reveal,
    DirectoryObjectStore.delete,
    S3ObjectStore.delete,
    PackageSet.parse,
    Settings.from_env,
    SkillRuntime.with_catalog,
    SkillSession.choose_file_name,
)


def public_functions() -> Iterator[Callable[..., Any]]:
    """Each public function that takes options, and the methods that take several values."""
    found: dict[Callable[..., Any], None] = {}
    for package in ("openskills", *(f"openskills.{one}" for one in PACKAGES), *sorted(ADAPTERS)):
        module = import_module(package)
        for name in () if package.endswith("skillkit") else module.__all__:
            value: object = getattr(module, name)
            if inspect.isfunction(value) and name not in HELPERS:
                found[value] = None
    yield from (*found, *METHODS)


def test_every_option_of_every_public_function_refuses_wrong_types_by_name() -> None:
    accepted: list[str] = []
    options = 0
    for one in public_functions():
        inner = inspect.unwrap(one)
        parameters = {name: hint for name, hint in inspect.get_annotations(inner).items() if name != "return"}
        annotated = SimpleNamespace(__annotations__=parameters)
        hints = typing.get_type_hints(annotated, vars(sys.modules[inner.__module__]))
        for field, parameter in inspect.signature(inner).parameters.items():
            if field in ("self", "cls") or parameter.kind is parameter.VAR_KEYWORD:
                continue
            for wrong in wrong_values(hints.get(field, object)):
                options += 1
                itself = () if inspect.ismethod(one) or "self" not in inspect.signature(inner).parameters else (None,)
                several = parameter.kind is parameter.VAR_POSITIONAL
                try:
                    found = one(*itself, wrong) if several else one(*itself, **{field: wrong})
                    if inspect.iscoroutine(found):
                        found.close()
                except InvalidArgument as error:
                    if error.field.startswith(field):
                        continue
                except (AttributeError, TypeError, ValueError):
                    pass
                accepted.append(f"{inner.__module__}: {inner.__qualname__}({field}={wrong!r})")
    assert not accepted, "\n".join(accepted)
    assert options > 100


@check_arguments
def configured(
    names: tuple[str, ...] = (),
    *,
    roots: Iterable[Path] = (),
    secrets: Mapping[str, tuple[str, ...]] | None = None,
    timeout: float = 1,
    mode: typing.Literal["a", "b"] = "a",
) -> object:
    return (names, roots, secrets, timeout, mode)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"names": "rm"}, "names: expected a list (each item text), got str 'rm'; write ['rm']"),
        ({"names": ["rm", 1]}, "names[1]: expected text, got int 1"),
        ({"roots": ["/srv"]}, "roots[0]: expected a Path, got str '/srv'; write Path('/srv')"),
        (
            {"secrets": {"a": "TOKEN"}},
            "secrets['a']: expected a list (each item text), got str 'TOKEN'; write ['TOKEN']",
        ),
        ({"timeout": -1}, "timeout: expected a number that is not negative, got int -1"),
        ({"mode": "c"}, "mode: expected 'a' or 'b', got str 'c'"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named_with_its_fix(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        configured(**given)
    assert str(refused.value) == message


def test_lists_become_tuples_where_tuples_are_annotated() -> None:
    found = configured(["a"], roots=iter([Path("x")]), secrets={"a": ["b"]}, timeout=0.5)  # pyright: ignore
    assert isinstance(found, tuple)
    assert (found[0], found[2]) == (("a",), {"a": ("b",)})
