"""Rules about files and their places: that this repository keeps them, and that each can fail."""

import ast
import re
from importlib import import_module

import grimp

from tests.architecture import tree_rules as rules
from tests.architecture.project import ROOT, Source, package_sources, sources_of_tests, texts

MAX_MODULES = 318
"""Only ever lowered; raising it needs a decision record."""
IMPLEMENTED_FOR_OTHERS = {
    "eof_received": "asyncio calls it",
    "handle_error": "socketserver calls it",
    "send_400_response": "uvicorn calls it",
    "datagram_received": "asyncio calls it",
    "get_help": "Click calls it",
    "abefore_agent": "LangChain calls it",
    **dict.fromkeys(("get_instructions", "get_toolset", "get_workspace", "working_dir"), "Pydantic AI calls it"),
    **dict.fromkeys(("deserialize_session_state", "hydrate_workspace", "supports_pty"), "the Agents SDK calls it"),
    **dict.fromkeys(("persist_workspace", "pty_exec_start", "pty_write_stdin"), "the Agents SDK calls it"),
    "pty_terminate_all": "the Agents SDK calls it",
}
USERS = ("benchmarks/", "docs/", "examples/", "scripts/", "skills/", "skills_cli/", "README")
PINS = ("constraints.txt", "requirements.txt", ".lock")


def modules_imported_by_tests() -> set[str]:
    """Every module that a test imports, or imports a name from, also through the package that exports the name."""
    found: set[str] = set()
    for source in sources_of_tests():
        for node in source.nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("openskills"):
                found.add(node.module or "")
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
                if "." not in (node.module or "").removeprefix("openskills."):
                    exported = (getattr(import_module(node.module or ""), alias.name, None) for alias in node.names)
                    found.update(getattr(value, "__module__", "") for value in exported)
    return found


def paths(sources: list[Source]) -> list[str]:
    return [source.path for source in sources]


def test_no_module_is_a_drawer() -> None:
    assert not rules.drawers(paths(package_sources()) + paths(sources_of_tests()))


def test_the_number_of_modules_is_limited() -> None:
    assert not rules.too_many_modules(paths(package_sources()), MAX_MODULES)


def test_folders_are_at_most_two_levels_deep() -> None:
    assert not rules.deep_folders(paths(package_sources()))


def test_modules_are_named_by_nouns() -> None:
    assert not rules.odd_module_names(paths(package_sources()))


def test_every_class_name_is_defined_once() -> None:
    repeated = rules.repeated_class_names(package_sources())
    assert not repeated, "\n".join(repeated)


def test_no_two_sub_packages_import_each_other() -> None:
    graph = grimp.build_graph("openskills", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    packages = {module for module in graph.modules if graph.find_children(module)} - {"openskills"}
    assert not rules.two_way_imports(imports, packages)


def test_every_module_is_covered_by_a_test() -> None:
    missing = rules.untested(package_sources(), modules_imported_by_tests(), set(paths(sources_of_tests())))
    assert not missing, "\n".join(missing)


def test_nothing_public_is_used_only_by_tests() -> None:
    words = {word for path, text in texts() if path.startswith(USERS) for word in re.findall(r"\w+", text)}
    unused = rules.unused_names(package_sources(), words | IMPLEMENTED_FOR_OTHERS.keys())
    assert not unused, "\n".join(unused)


def test_no_class_exists_twice_for_waiting_and_for_awaiting() -> None:
    assert not rules.twin_classes(package_sources())


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("openskills", cache_dir=None)
    circle = rules.cycle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    assert not circle, " imports ".join(circle)


def test_no_text_names_a_place_on_somebodys_machine() -> None:
    faults = [fault for path, text in texts() for fault in rules.machine_paths(path, text)]
    assert not faults, "\n".join(faults)


def test_no_text_has_an_idiom_of_another_language() -> None:
    written = (
        (path, text) for path, text in texts() if path.endswith((".py", ".md", ".html", ".toml", ".yaml", ".sh"))
    )
    faults = [fault for path, text in written if path != "AGENTS.md" for fault in rules.foreign_idioms(path, text)]
    assert not faults, "\n".join(faults)


def test_constraints_are_names_and_versions() -> None:
    faults = rules.impure_pins("constraints.txt", (ROOT / "constraints.txt").read_text())
    assert not faults, "\n".join(faults)


def test_no_file_that_an_installer_reads_names_a_registry() -> None:
    faults = [fault for path, text in texts() if path.endswith(PINS) for fault in rules.addresses(path, text)]
    assert not faults, "\n".join(faults)


def test_the_readme_is_short_and_begins_with_the_demo() -> None:
    faults = rules.readme((ROOT / "README.md").read_text("utf-8"))
    assert not faults, "\n".join(faults)


def test_a_drawer_is_found_as_module_and_as_package() -> None:
    assert len(rules.drawers(["catalog/utils.py", "common/zip.py", "_helpers.py"])) == 3
    assert not rules.drawers(["catalog/unpack.py", "prompt/shared_state.py"])


def test_a_module_above_the_limit_is_found() -> None:
    assert rules.too_many_modules(["a.py", "b.py", "c/__init__.py"], 1)
    assert not rules.too_many_modules(["a.py", "b.py", "c/__init__.py"], 2)


def test_a_third_level_of_folders_is_found() -> None:
    assert rules.deep_folders(["a/b/c/d.py"])
    assert not rules.deep_folders(["a/b/c.py", "a.py"])


def test_a_gerund_and_a_participle_are_found() -> None:
    assert (
        len(rules.odd_module_names(["a/loading.py", "b/kept.py", "b/_last_seen.py", "c/shared.py", "d/settings.py"]))
        == 4
    )
    assert not rules.odd_module_names(["agent/rules/routing.py", "catalog/discovery.py"])


def test_a_class_name_that_is_defined_twice_is_found() -> None:
    modules = [Source("a.py", "class _Entry: ..."), Source("b.py", "class Entry: ..."), Source("c.py", "class C: ...")]
    assert rules.repeated_class_names(modules) == ["class Entry is defined in a.py, b.py"]


def test_sub_packages_that_import_each_other_are_found() -> None:
    packages = {"o.a", "o.b", "o.a.c"}
    assert rules.two_way_imports({"o.a.x": ["o.b.y"], "o.b.z": ["o.a.w"]}, packages) == [
        "o.a and o.b import each other"
    ]
    assert not rules.two_way_imports({"o.a.x": ["o.a.c.y"], "o.a.c.z": ["o.a.w"]}, packages)
    assert not rules.two_way_imports({"o.a.x": ["o.b.y"]}, packages)


def test_a_module_that_no_test_imports_is_found() -> None:
    module = Source("catalog/unpack.py", "def f():\n    return 1\n")
    assert rules.untested([module], {"openskills.catalog.zip"}, {"catalog/test_zip.py"}) == [
        "catalog/unpack.py: no test imports it, and no test file has its name"
    ]
    assert not rules.untested([module], {"openskills.catalog.unpack"}, set())
    assert not rules.untested([module], set(), {"catalog/test_unpack.py"})


def test_a_module_of_plain_declarations_needs_no_test() -> None:
    declarations = 'class P:\n    def f(self) -> int:\n        """Doc."""\n        ...\n\nX = 1\n'
    assert not rules.untested([Source("catalog/words.py", declarations)], set(), set())


def test_a_function_that_only_tests_call_is_found() -> None:
    modules = [Source("a.py", "def lonely(): ...\ndef used(): ...\n@command\ndef registered(): ...\nused()\n")]
    assert len(rules.unused_names(modules, set())) == 1
    assert not rules.unused_names(modules, {"lonely"})


def test_a_property_that_only_tests_read_is_found() -> None:
    lonely = Source(
        "a.py", 'class A:\n    @property\n    def size(self): ...\n\n    def f(self):\n        """The size."""\n'
    )
    reader = Source("b.py", "A().size, A().f\n")
    assert [fault.partition(":")[0] for fault in rules.unused_names([lonely], {"f"})] == ["a.py"]
    assert not rules.unused_names([lonely, reader], set())


def test_a_function_that_is_only_listed_as_a_public_name_is_found() -> None:
    modules = [Source("a/b.py", "def lonely(): ...\n"), Source("a/__init__.py", "__all__ = ['lonely']\n")]
    assert len(rules.unused_names(modules, set())) == 1


def test_a_setting_that_is_read_from_the_environment_and_by_nothing_else_is_found() -> None:
    code = "class Settings:\n    speed: int\n\nSettings(speed=os.environ['SPEED'])\nVARIABLES = {'speed': 'SPEED'}\n"
    settings = Source("settings.py", code)
    assert len(rules.unused_names([settings], set())) == 1
    assert not rules.unused_names([settings, Source("a.py", "f(settings.speed)\n")], set())


def test_a_class_and_its_async_twin_in_another_file_are_found() -> None:
    modules = [Source("a.py", "class Client: ..."), Source("b.py", "class AsyncClient: ...")]
    assert rules.twin_classes(modules) == ["b.py:1: AsyncClient is the twin of Client"]


def test_a_circle_of_imports_is_found() -> None:
    assert not rules.cycle({"a": ["b"], "b": ["c"], "c": []})
    circle = rules.cycle({"a": ["b"], "b": ["c"], "c": ["a"]})
    assert circle[0] == circle[-1]
    assert set(circle) == {"a", "b", "c"}


def test_a_place_on_a_machine_is_found_unless_it_is_deliberate() -> None:
    home = "/home" + "/erika/"
    assert rules.machine_paths("docs/a.md", f"see {home}notes") == [
        f"docs/a.md:1: names {home}, a place on somebody's machine"
    ]
    assert rules.machine_paths("Makefile", "cp x=/wor" + "k/a b")
    assert rules.machine_paths("docs/a.md", f"{home}  # a path on purpose")
    assert not rules.machine_paths("tests/a.py", f"{home}  # a path on purpose")
    assert not rules.machine_paths("docs/a.md", "tests/work/a, ~/work/a, https://x.org/work/, /home/user/skills")


def test_an_idiom_of_another_language_is_found() -> None:
    is_no = "is " + "no"
    assert rules.foreign_idioms("a.py", f"raise Fault('x {is_no} number')") == [
        f"a.py:1: '{is_no} number': write `not a ...`, `invalid ...` or `unknown ...`"
    ]
    assert rules.foreign_idioms("tests/a.py", f"def test_half_{is_no.replace(' ', '_')}_answer(): ...")
    assert not rules.foreign_idioms(
        "a.md", "There is no limit. It is no longer needed, and is not a number. There are no files."
    )


def test_an_address_in_constraints_is_found() -> None:
    assert rules.impure_pins("constraints.txt", "a==1\n--index-url https://example.org/simple\n")
    assert rules.impure_pins("constraints.txt", "a @ file:///tmp/a.whl\n")
    assert rules.impure_pins("constraints.txt", "# from https://example.org\n")
    assert not rules.impure_pins("constraints.txt", "# why\nPyYAML==6.0.3\nzope.event==5.0+local\n")


def test_an_address_in_requirements_is_found() -> None:
    assert rules.addresses("requirements.txt", "deepagents\n--find-links wheels\n")
    assert not rules.addresses("requirements.txt", "deepagents>=0.7\n")


def test_a_readme_that_is_long_or_begins_elsewhere_is_found() -> None:
    good = "# X\n\n```bash\nmake demo   # look\nmake test\n```\n"
    assert not rules.readme(good)
    assert len(rules.readme(good + "\n" * 150)) == 1
    assert len(rules.readme("# X\n\n```sh\n$ pip install openskill-runtime\n```\n" + good)) == 1
    assert not rules.readme("```python\nimport openskills\n```\n" + good)
