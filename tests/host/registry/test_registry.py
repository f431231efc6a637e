"""The registry over real directories.

What is offered at one moment.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, InvalidSkill, UnknownSkill
from openskills.host.model import Registration
from openskills.host.registry.registry import (
    Registry,
    RegistryChanges,
    RegistryEntry,
    RegistrySnapshot,
    build_tool_names,
)
from openskills.settings import Settings
from openskills.skillmd.problem import Problem

MANIFEST = "type: cli\nruntime: python\nentry: ./skills_cli/{id}.py\n"


_watchers: list[list[str]] = []


@contextmanager
def opened_files() -> Generator[list[str]]:
    """The names of files that Python opens meanwhile, as the interpreter itself reports them."""
    _listen()
    names: list[str] = []
    _watchers.append(names)
    try:
        yield names
    finally:
        _watchers.clear()


@cache
def _listen() -> None:
    # A hook cannot be taken away again; it does nothing while nobody watches.
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        for names in _watchers:
            names.append(str(arguments[0]))


class Project:
    """A directory that a host is started in, as the document has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cli = path / "skills_cli"
        self.cli.mkdir()
        (path / "data").mkdir()
        self.environment = {
            "HOME": str(path / "home"),
            "OPENSKILL_CLI_DIR": str(self.cli),
            "OPENSKILL_ALLOWED_ROOT": str(path / "data"),
        }

    def script(self, skill: str) -> Path:
        path = self.cli / f"{skill}.py"
        path.write_text("print()")
        return path

    def manifest(self, skill: str, more: str = "", *, script: bool = True) -> Path:
        if script:
            self.script(skill)
        path = self.cli / f"{skill}.yaml"
        path.write_text(MANIFEST.format(id=skill) + more)
        return path

    def load(self, *manifests: Path, **environment: str) -> Registry:
        settings = Settings.from_env({**self.environment, **environment})
        return Registry(settings, manifests=manifests, start=self.path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def status(registry: Registry) -> dict[str, str]:
    return {entry.id: entry.status for entry in registry.list_entries()}


def rules(registry: Registry, skill: str) -> list[str]:
    return [problem.rule for problem in registry.get_entry(skill).problems]


def test_without_manifests_each_script_is_a_skill_as_the_document_says(project: Project) -> None:
    script = project.script("echo")
    registry = project.load(OPENSKILL_TIMEOUT_MS="700")
    found = registry.get("echo")
    assert (found.id, found.kind, found.entry) == ("echo", "cli:python", str(script))
    assert (found.timeout_ms, found.allowed_root) == (700, project.path / "data")
    assert registry.list_registrations() == (found,)


def test_a_project_that_has_nothing_has_no_skills(tmp_path: Path) -> None:
    registry = Registry(Settings.from_env({"HOME": str(tmp_path), "OPENSKILL_CLI_DIR": str(tmp_path / "none")}))
    assert (registry.list_entries(), registry.problems) == ((), ())
    with pytest.raises(UnknownSkill):
        registry.get("echo")


def test_a_manifest_counts_before_the_script_it_is_about(project: Project) -> None:
    project.manifest("calculator", "timeout_ms: 5\nversion: 1.10\n")
    registry = project.load()
    assert status(registry) == {"calculator": "ready"}
    found = registry.get("calculator")
    assert (found.timeout_ms, found.version, found.origin) == (5, "1.10", project.cli / "calculator.yaml")


def test_a_manifest_may_only_narrow_the_variables_that_are_set(project: Project) -> None:
    (project.path / "data" / "small").mkdir()
    (project.path / "other").mkdir()
    project.manifest("wide", "timeout_ms: 9000\nallowed_root: ./other\n")
    project.manifest("narrow", f"timeout_ms: 5\nallowed_root: {project.path}/data/small\n")
    project.manifest("same", "timeout_ms: 700\nallowed_root: ./data\n")
    registry = project.load(OPENSKILL_TIMEOUT_MS="700")
    found = {one.id: (one.timeout_ms, one.allowed_root) for one in registry.list_registrations()}
    data = project.path / "data"
    assert found == {"wide": (700, data), "narrow": (5, data / "small"), "same": (700, data)}
    assert rules(registry, "wide") == ["timeout-ms-limit", "allowed-root-limit"]
    assert rules(registry, "narrow") == ["timeout-ms-narrowed", "allowed-root-narrowed"]
    assert rules(registry, "same") == []
    assert set(status(registry).values()) == {"ready"}
    del project.environment["OPENSKILL_ALLOWED_ROOT"]
    unset = project.load().get("wide")
    assert (unset.timeout_ms, unset.allowed_root) == (9000, project.path / "other")


def test_the_variables_count_for_the_shipped_skills(tmp_path: Path) -> None:
    start = Path(__file__).parents[3]
    variables = {"HOME": str(tmp_path), "OPENSKILL_CLI_DIR": str(start / "skills_cli")}
    variables |= {"OPENSKILL_ALLOWED_ROOT": str(tmp_path), "OPENSKILL_TIMEOUT_MS": "700"}
    registry = Registry(Settings.from_env(variables), start=start)
    assert len(registry.list_registrations()) == 4
    assert {(one.timeout_ms, one.allowed_root) for one in registry.list_registrations()} == {(700, tmp_path)}


def test_a_script_that_a_manifest_of_another_name_calls_is_not_a_skill_of_its_own(project: Project) -> None:
    project.manifest("calculator").rename(project.cli / "calc.yaml")
    assert status(project.load()) == {"calc": "ready"}


def test_a_broken_manifest_breaks_no_other_and_its_script_is_not_called_without_it(project: Project) -> None:
    project.manifest("bad", "timeout_ms: -5\n")
    project.script("good")
    registry = project.load()
    assert status(registry) == {"bad": "broken", "good": "ready"}
    (problem,) = registry.get_entry("bad").problems
    assert str(problem) == (
        f"{project.cli}/bad.yaml:4:13: error: timeout_ms: -5 is not an integer from 1 to 86,400,000 [field-value]"
    )
    with pytest.raises(InvalidSkill, match="timeout_ms: -5 is not an integer"):
        registry.get("bad")


def test_a_folder_with_a_manifest_is_a_skill_with_paths_beside_it(project: Project) -> None:
    folder = project.cli / "resize"
    folder.mkdir()
    (folder / "run.py").write_text("print()")
    (folder / "manifest.json").write_text(json.dumps({"type": "cli", "runtime": "python", "entry": "run.py"}))
    found = project.load().get("resize")
    assert found.entry == str(folder / "run.py")


def test_hostile_files_are_entries_with_problems_and_nothing_is_raised(project: Project, tmp_path: Path) -> None:
    (project.cli / "bomb.yaml").write_text("a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n")
    (project.cli / "latin.yaml").write_bytes(b"id: \xff")
    (project.cli / "big.json").write_bytes(b'{"a": "' + b"x" * 10_000_000 + b'"}')
    (project.cli / "link.yaml").symlink_to("/etc/passwd")
    (project.cli / "folder.yaml").mkdir()
    os.mkfifo(project.cli / "pipe.yaml")
    (project.cli / "Up.Case.py").touch()
    (tmp_path / "outside.py").touch()
    project.manifest("leaves", script=False)
    (project.cli / "leaves.py").symlink_to("/etc/passwd")
    project.script("good")
    registry = project.load()
    assert status(registry) == {
        "Up.Case": "broken",
        "big": "broken",
        "bomb": "broken",
        "good": "ready",
        "latin": "broken",
        "leaves": "broken",
        "link": "broken",
        "pipe": "broken",
    }
    assert rules(registry, "leaves") == ["entry-outside"]
    assert "x" * 300 not in str(registry.list_entries())


def test_two_manifests_with_one_id_are_reported_and_one_counts(project: Project) -> None:
    project.manifest("a", "id: same\n")
    project.manifest("b", "id: same\n")
    registry = project.load()
    assert registry.get("same").origin == project.cli / "a.yaml"
    loser = next(entry for entry in registry.list_entries() if entry.origin == project.cli / "b.yaml")
    assert loser.status == "broken"
    assert f"is taken by {project.cli}/a.yaml" in loser.problems[-1].message
    assert loser.problems[-1].line == 4


def test_a_directory_of_manifests_that_is_named_counts_before_that_of_the_scripts(project: Project) -> None:
    project.manifest("calculator", "version: 1\n")
    more = project.path / "more"
    more.mkdir()
    (more / "calculator.yml").write_text(MANIFEST.format(id="calculator") + "version: 2\n")
    (more / "loose.py").touch()
    registry = project.load(more)
    assert registry.get("calculator").version == "2"
    assert "loose" not in status(registry)


def test_a_directory_that_is_none_is_refused_at_once(project: Project) -> None:
    with pytest.raises(InvalidArgument, match=f"--manifests: {project.path}/nowhere is not a directory"):
        project.load(project.path / "nowhere")


def test_a_secret_that_is_not_set_makes_a_skill_unavailable_and_its_value_is_nowhere(project: Project) -> None:
    project.manifest("paid", "secrets: [PAID_API_KEY]\n")
    registry = project.load()
    assert status(registry) == {"paid": "unavailable"}
    assert rules(registry, "paid") == ["secret-missing"]
    assert registry.get("paid").secrets == ("PAID_API_KEY",)
    registry = project.load(PAID_API_KEY="hunter2")
    assert status(registry) == {"paid": "ready"}
    assert "hunter2" not in repr(registry.list_entries())


def test_an_executor_that_the_host_was_told_counts_where_the_manifest_says_none(project: Project) -> None:
    project.manifest("a")
    project.manifest("b", "executor: sandbox\n")
    registry = project.load(OPENSKILL_EXECUTOR="container")
    assert (registry.get("a").executor, registry.get("b").executor) == ("container", "sandbox")


def test_a_skill_that_could_not_be_prepared_is_marked_until_it_changes(project: Project) -> None:
    manifest = project.manifest("calculator")
    registry = project.load()
    before = registry.list_entries()
    registry.set_problem(registry.get("calculator"), Problem("not-prepared", "no interpreter"))
    assert (status(registry), rules(registry, "calculator")) == ({"calculator": "unavailable"}, ["not-prepared"])
    assert registry.list_entries() != before
    assert not registry.reload()
    registry.set_problem(registry.get("calculator"), None)
    assert (status(registry), registry.list_entries()) == ({"calculator": "ready"}, before)
    registry.set_problem(registry.get("calculator"), Problem("not-prepared", "no interpreter"))
    manifest.write_text(manifest.read_text() + "version: 2\n")
    assert registry.reload() == RegistryChanges(changed=("calculator",))
    assert status(registry) == {"calculator": "ready"}


def test_a_mark_stays_though_another_manifest_has_the_same_id(project: Project) -> None:
    project.manifest("a", "id: same\n")
    project.manifest("b", "id: same\n")
    registry = project.load()
    registry.set_problem(registry.get("same"), Problem("not-prepared", "no interpreter"))
    registry.reload()
    assert registry.get_entry("same").status == "unavailable"
    registry.set_problem(replace(registry.get("same")), None)
    assert registry.get_entry("same").status == "unavailable"


def test_reloading_tells_what_came_went_and_changed(project: Project) -> None:
    project.manifest("stays")
    changed = project.manifest("changes")
    project.manifest("goes").unlink()
    registry = project.load()
    stays, entries = registry.get("stays"), registry.list_entries()
    assert registry.reload() == RegistryChanges()
    assert registry.list_entries() == entries
    changed.write_text(changed.read_text() + "timeout_ms: 7\n")
    (project.cli / "goes.py").unlink()
    project.script("comes")
    assert registry.reload() == RegistryChanges(added=("comes",), removed=("goes",), changed=("changes",))
    assert registry.list_entries() != entries
    assert registry.get("changes").timeout_ms == 7
    assert registry.get("stays") is stays


def test_a_script_that_was_edited_changes_its_skill(project: Project) -> None:
    project.manifest("calculator")
    registry = project.load()
    (project.cli / "calculator.py").write_text("print(1 + 1)")
    assert registry.reload() == RegistryChanges(changed=("calculator",))


def test_a_manifest_that_breaks_while_the_host_runs_is_broken_and_one_that_is_mended_is_not(project: Project) -> None:
    manifest = project.manifest("calculator")
    registry = project.load()
    good = manifest.read_text()
    manifest.write_text("type: [")
    assert registry.reload() == RegistryChanges(changed=("calculator",))
    assert status(registry) == {"calculator": "broken"}
    manifest.write_text(good)
    registry.reload()
    assert status(registry) == {"calculator": "ready"}


def test_an_entry_that_appears_later_is_found_though_its_manifest_is_the_same(project: Project) -> None:
    project.manifest("late", script=False)
    registry = project.load()
    assert rules(registry, "late") == ["entry-missing"]
    project.script("late")
    assert registry.reload() == RegistryChanges(changed=("late",))
    assert status(registry) == {"late": "ready"}


def test_unchanged_files_are_not_read_again(project: Project) -> None:
    changed = project.manifest("changed")
    project.manifest("same")
    registry = project.load()
    settle(registry)
    changed.write_text(changed.read_text() + "version: 2\n")
    assert reloading_reads(registry) == ["changed.yaml"]


def test_a_manifest_that_is_rewritten_in_place_with_the_same_size_is_read_again_every_time(project: Project) -> None:
    manifest = project.manifest("quick", "version: a\n")
    registry = project.load()
    for version in "bcdefghijk" * 5:
        with manifest.open("r+") as file:
            file.write(MANIFEST.format(id="quick") + f"version: {version}\n")
        registry.reload()
        assert registry.get("quick").version == version


def reloading_reads(registry: Registry) -> list[str]:
    """The manifests that a reload reads."""
    with opened_files() as names:
        registry.reload()
        return [name for name in names if name.endswith(".yaml")]


def settle(registry: Registry) -> None:
    """Reload until nothing is read any more."""
    deadline = time.monotonic() + 30
    while reloading_reads(registry):
        assert time.monotonic() < deadline


def test_a_directory_that_goes_takes_its_skills_with_it_and_comes_back(project: Project) -> None:
    project.manifest("calculator")
    registry = project.load()
    project.cli.rename(project.path / "away")
    assert registry.reload() == RegistryChanges(removed=("calculator",))
    (project.path / "away").rename(project.cli)
    assert registry.reload() == RegistryChanges(added=("calculator",))


def test_readers_see_the_old_or_the_new_while_manifests_change(project: Project) -> None:
    def write(version: int) -> None:
        for skill in ("a", "b"):
            text = MANIFEST.format(id=skill) + f"version: v{version}\n"
            temporary = project.cli / f".{skill}"
            temporary.write_text(text)
            temporary.rename(project.cli / f"{skill}.yaml")

    project.script("a")
    project.script("b")
    write(0)
    registry = project.load()
    done = threading.Event()
    mixed: list[tuple[str, ...]] = []

    def watch() -> None:
        while not done.is_set():
            versions = tuple(found.version for found in registry.list_registrations())
            if len(set(versions)) != 1 or len(versions) != 2:
                mixed.append(versions)

    reader = threading.Thread(target=watch)
    reader.start()
    for version in range(1, 60):
        write(version)
        assert registry.reload() == RegistryChanges(changed=("a", "b"))
    done.set()
    reader.join()
    assert mixed == []
    assert registry.get("a").version == "v59"


def test_thousands_of_manifests_are_read_and_every_one_counts(project: Project) -> None:
    project.script("one")
    for number in range(2_000):
        (project.cli / f"s{number}.yaml").write_text(MANIFEST.format(id="one") + f"timeout_ms: {number + 1}\n")
    registry = project.load()
    assert len(registry.list_registrations()) == 2_000
    assert registry.get("s1999").timeout_ms == 2_000
    assert registry.reload() == RegistryChanges()


def test_kinds_of_an_installed_package_are_known(project: Project) -> None:
    installed = project.path / "site"
    (installed / "wasm_runner-1.0.dist-info").mkdir(parents=True)
    (installed / "wasm_runner-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: wasm-runner\n")
    points = "[openskills.runners]\nwasm:wasi = wasm_runner:Runner\nwasm = wasm_runner:Runner\n"
    (installed / "wasm_runner-1.0.dist-info" / "entry_points.txt").write_text(points)
    (project.cli / "m.yaml").write_text("type: wasm\nruntime: wasi\nentry: m.wasm\nfuel: 5\n")
    (project.cli / "n.yaml").write_text("type: wasm\nentry: n.wasm\n")
    sys.path.insert(0, str(installed))
    try:
        assert project.load().get("m").options == {"fuel": 5}
        assert status(project.load()) == {"m": "ready", "n": "ready"}
    finally:
        sys.path.remove(str(installed))
    assert status(project.load()) == {"m": "broken", "n": "broken"}


def test_where_to_look_for_changes_is_known(project: Project) -> None:
    assert project.load().directories == (project.cli,)


def ready(skill_id: str, *, origin: str = "", rank: int = 0, version: str = "1") -> RegistryEntry:
    path = Path(origin or f"{skill_id}.yaml")
    return RegistryEntry(skill_id, Registration(skill_id, "inproc", "a:b", version), origin=path, rank=rank)


def broken(skill_id: str, *, origin: str = "broken.yaml", rank: int = 0) -> RegistryEntry:
    return RegistryEntry(skill_id, None, (Problem("field-value", "x: is wrong"),), "broken", Path(origin), rank=rank)


def test_ids_are_found_exactly_first_and_then_with_the_other_dash() -> None:
    offer = RegistrySnapshot([ready("file_search"), ready("log-transform"), ready("a-b"), ready("a_b")])
    assert offer.get("file-search").id == "file_search"
    assert offer.get("log_transform").id == "log-transform"
    assert (offer.get("a-b").id, offer.get("a_b").id) == ("a-b", "a_b")


def test_a_spelling_of_several_ids_means_none_of_them_and_names_them() -> None:
    offer = RegistrySnapshot([ready("beta.a-b"), ready("beta.a_b"), ready("be-ta.go"), ready("be_ta.go")])
    assert offer.get("beta__a_b").id == "beta.a_b"
    assert offer.get("be_ta__go").id == "be_ta.go"
    assert offer.get("be-ta__go").id == "be-ta.go"
    for spelling in ("beta--a-b", "beta--a_b", "be-ta--go"):
        assert offer.find(spelling) is None
        with pytest.raises(UnknownSkill) as raised:
            offer.get(spelling)
        assert len(raised.value.near) == 2


@pytest.mark.parametrize("ids", [("a.b", "a__b"), ("a.b", "a__b", "a--b", "a-_b"), ("a.b-c", "a.b_c", "a__b-c")])
def test_the_tool_name_of_each_skill_finds_that_skill(ids: tuple[str, ...]) -> None:
    # One more id looks like the name that another skill gets.
    more = (*ids, *build_tool_names(ids).values())
    names = build_tool_names(more)
    assert len({*names.values()}) == len(names)
    offer = RegistrySnapshot([ready(one) for one in {*more}])
    assert {one: offer.get(name).id for one, name in names.items()} == {one: one for one in names}
    assert all(offer.get(one).id == one for one in names)


def test_what_is_known_is_found_without_a_complaint() -> None:
    offer = RegistrySnapshot([ready("file_search"), broken("bad")])
    assert offer.find("file-search") is offer.get("file_search")
    assert offer.find("bad") is offer.find("nope") is None


def test_an_unknown_id_has_the_nearest_ones() -> None:
    offer = RegistrySnapshot([ready("calculator"), ready("echo")])
    with pytest.raises(UnknownSkill) as raised:
        offer.get("calculater")
    assert raised.value.near == ("calculator",)
    for hostile in ("", "x" * 100_000, "../../etc", "\0", "é" * 70):
        with pytest.raises(UnknownSkill):
            offer.get(hostile)


def test_a_broken_one_is_an_entry_and_no_registration() -> None:
    offer = RegistrySnapshot([broken("bad"), ready("good")])
    assert [registration.id for registration in offer.registrations] == ["good"]
    assert offer.get_entry("bad").status == "broken"
    with pytest.raises(InvalidSkill, match="the manifest of 'bad' is invalid: x: is wrong") as raised:
        offer.get("bad")
    assert len(raised.value.problems) == 1


def test_of_equal_ids_the_later_source_counts_and_the_other_says_which() -> None:
    offer = RegistrySnapshot([ready("x", origin="one.yaml"), ready("x", origin="two.yaml", rank=1, version="2")])
    assert offer.get("x").version == "2"
    loser = next(entry for entry in offer.entries if entry.status == "broken")
    assert loser.origin == Path("one.yaml")
    assert loser.problems[-1].message == "id: 'x' is taken by two.yaml; use another id"
    assert len(offer.registrations) == 1


def test_of_equal_ids_in_one_source_the_first_by_name_counts() -> None:
    offer = RegistrySnapshot([ready("x", origin="b.yaml", version="2"), ready("x", origin="a.yaml")])
    assert offer.get("x").version == "1"


def test_a_broken_one_takes_no_id_from_a_good_one() -> None:
    assert RegistrySnapshot([broken("x", rank=9), ready("x", rank=2)]).get("x").id == "x"


def test_changes_are_what_came_went_and_is_different() -> None:
    before = RegistrySnapshot([ready("a"), ready("b"), ready("c")])
    after = RegistrySnapshot([ready("b"), ready("c", version="2"), ready("d")])
    assert after.compare_with(before) == RegistryChanges(added=("d",), removed=("a",), changed=("c",))
    assert not after.compare_with(after)
    assert after.content != before.content
    assert RegistrySnapshot([ready("c"), ready("b"), ready("a")]).content == before.content
