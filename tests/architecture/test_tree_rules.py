"""Rules about files and their places: that this repository keeps them, and that each can fail."""

import grimp

from tests.architecture import tree_rules as rules
from tests.architecture.project import ROOT, Source, package_sources, sources_of_tests, texts

# Modules that have no test file of their own name, and the one that tests them. Keep it short.
TESTED_IN = {
    "__init__.py": "architecture/test_public_names.py",
    # The formats of archives: what they promise is promised by unpack().
    "catalog/fetch/members.py": "catalog/fetch/test_unpack.py",
    "catalog/fetch/tar_members.py": "catalog/fetch/test_unpack.py",
    "catalog/fetch/zip_members.py": "catalog/fetch/test_unpack.py",
    # Both ends of a connection: what they promise is promised by a process.
    "executors/inside/keeper.py": "executors/processes/test_keeping.py",
    "executors/directory_workspace.py": "executors/test_directory.py",
    "executors/rules/resolving.py": "executors/test_workbench.py",
    "cli/running.py": "cli/test_run.py",
}
PINS = ("constraints.txt", "requirements.txt", ".lock")


def paths(sources: list[Source]) -> list[str]:
    return [source.path for source in sources]


def test_no_module_is_a_drawer() -> None:
    assert not rules.drawers(paths(package_sources()) + paths(sources_of_tests()))


def test_every_module_has_its_test_file() -> None:
    missing = rules.untested(package_sources(), paths(sources_of_tests()), TESTED_IN)
    assert not missing, "\n".join(missing)


def test_no_class_exists_twice_for_waiting_and_for_awaiting() -> None:
    assert not rules.twin_classes(package_sources())


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("openskills", cache_dir=None)
    circle = rules.cycle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    assert not circle, " imports ".join(circle)


def test_no_text_names_a_place_on_somebodys_machine() -> None:
    faults = [fault for path, text in texts() for fault in rules.machine_paths(path, text)]
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


def test_a_module_with_code_and_no_test_is_found() -> None:
    module = Source("catalog/unpack.py", "def f():\n    return 1\n")
    assert rules.untested([module], ["catalog/test_zip.py"], {}) == [
        "catalog/unpack.py: there is no tests/catalog/test_unpack.py"
    ]
    assert not rules.untested([module], ["catalog/test_unpack.py"], {})
    elsewhere = {"catalog/unpack.py": "catalog/test_zip.py"}
    assert not rules.untested([module], ["catalog/test_zip.py"], elsewhere)
    assert rules.untested([module], ["catalog/test_tar.py"], elsewhere)


def test_a_module_of_plain_declarations_needs_no_test() -> None:
    declarations = 'class P:\n    def f(self) -> int:\n        """Doc."""\n        ...\n\nX = 1\n'
    assert not rules.untested([Source("catalog/words.py", declarations)], [], {})


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
    assert len(rules.readme("# X\n\n```sh\n$ pip install openskills\n```\n" + good)) == 1
    assert not rules.readme("```python\nimport openskills\n```\n" + good)
