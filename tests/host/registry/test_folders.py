"""Which files are manifests, and reading them whatever they are.

Paths of manifests on the disk.

SKILL.md folders behind the host.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.errors import InvalidSkill, UnknownSkill
from openskills.host.model import HostLimits, Registration
from openskills.host.registry.folders import (
    MAX_FILES,
    ManifestBasePaths,
    ManifestFile,
    SkillFolders,
    read_manifest_file,
    read_stamp,
    resolve_paths,
    scan_directory,
)
from openskills.host.registry.manifest import FIELDS, FOLDER_FIELDS, ID_PATTERN
from openskills.host.registry.registry import Registry
from openskills.host.registry.scripts import SkippedFile, build_ids
from openskills.settings import Settings
from openskills.skillmd.problem import Problem

RequireProgram = Callable[[str], str]


def names(files: tuple[ManifestFile, ...]) -> list[tuple[str, str]]:
    return [(file.name, file.skill) for file in files]


def test_manifests_and_scripts_are_found_and_hidden_names_are_not(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "s.py", "_private.py", ".hidden.yaml", "notes.txt", "README.md"):
        (tmp_path / name).touch()
    for name in ("folder/manifest.yaml", "empty/other.yaml", "_lib/manifest.yaml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    found = scan_directory(tmp_path)
    assert names(found.manifests) == [
        ("a.yml", "a"),
        ("b.yaml", "b"),
        ("c.json", "c"),
        ("folder/manifest.yaml", "folder"),
    ]
    assert names(found.scripts) == [("s.py", "s")]
    assert [file.is_json for file in found.manifests] == [False, False, True, False]


def test_a_directory_that_is_not_there_is_empty_and_one_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    assert scan_directory(tmp_path / "nowhere").problems == ()
    (tmp_path / "file").touch()
    (problem,) = scan_directory(tmp_path / "file").problems
    assert (problem.rule, problem.path) == ("directory-unreadable", str(tmp_path / "file"))


def test_a_name_that_is_not_utf8_gives_an_id_that_can_be_printed(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"\xff.yaml")).touch()
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    assert names(scan_directory(tmp_path).manifests) == [(os.fsdecode(b"\xff.yaml"), "\\xff")]


def test_of_too_many_files_the_first_are_taken_and_it_is_told(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 1):
        (tmp_path / f"{number:06}.yaml").touch()
    found = scan_directory(tmp_path)
    assert len(found.manifests) == MAX_FILES
    assert [problem.rule for problem in found.problems] == ["directory-size"]


def test_a_file_is_read_with_its_stamp_once_that_can_be_trusted(tmp_path: Path) -> None:
    file = ManifestFile(tmp_path, "a.yaml", "a")
    deadline = time.monotonic() + 30
    # A machine that stands still for a moment makes a new file old.
    while True:
        file.path.write_bytes(b"id: a")
        if read_manifest_file(file) == (None, b"id: a", None):
            break
        assert time.monotonic() < deadline
    while read_manifest_file(file)[0] is None:
        assert time.monotonic() < deadline
    assert read_manifest_file(file) == (read_stamp(file.path), b"id: a", None)
    assert read_stamp(tmp_path / "nowhere") is None


def test_a_link_is_followed_while_it_stays_as_mounted_configurations_have_them(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "a.yaml").write_bytes(b"id: a")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert names(scan_directory(tmp_path).manifests) == [("a.yaml", "a")]
    assert read_manifest_file(scan_directory(tmp_path).manifests[0])[1] == b"id: a"


def test_what_cannot_be_read_is_a_problem_and_nothing_blocks(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("/etc/passwd")
    (tmp_path / "dead.yaml").symlink_to("nowhere")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "big.yaml").write_bytes(b"x" * 10_000_000)
    rules = {
        file.skill: problem.rule
        for file in scan_directory(tmp_path).manifests
        if (problem := read_manifest_file(file)[2]) is not None
    }
    assert rules == {
        "link": "link-leaves",
        "dead": "file-unreadable",
        "loop": "file-unreadable",
        "pipe": "file-type",
        "big": "file-size",
    }


def test_a_folder_that_is_a_link_to_elsewhere_gives_nothing_away(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.yaml").write_bytes(b"id: a")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a").symlink_to(tmp_path / "other")
    (file,) = scan_directory(tmp_path / "here").manifests
    problem = read_manifest_file(file)[2]
    assert problem is not None
    assert problem.rule == "link-leaves"


@pytest.fixture
def bases(tmp_path: Path) -> ManifestBasePaths:
    start, manifest = tmp_path / "start", tmp_path / "manifests"
    for directory in (start, manifest, start / "data"):
        directory.mkdir()
    return ManifestBasePaths(start, manifest, (start / "data",))


def skill(entry: str, root: str | None = None, *, kind: str = "cli:python") -> Registration:
    return Registration("x", kind, entry, "1", allowed_root=None if root is None else Path(root))


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("print()")
    return path


def only(found: tuple[Registration | None, tuple[Problem, ...]]) -> Problem:
    assert found[0] is None
    (problem,) = found[1]
    return problem


def test_an_entry_is_relative_to_the_start_and_then_to_the_manifest(bases: ManifestBasePaths) -> None:
    beside = script(bases.manifest / "a.py")
    found, problems = resolve_paths(skill("./a.py"), bases)
    assert found is not None
    assert (found.entry, problems) == (str(beside), ())
    at_start = script(bases.start / "a.py")
    found, _ = resolve_paths(skill("./a.py"), bases)
    assert found is not None
    assert found.entry == str(at_start)


def test_a_missing_entry_says_where_it_was_looked_for(bases: ManifestBasePaths) -> None:
    problem = only(resolve_paths(skill("skills/a.py"), bases))
    assert problem.rule == "entry-missing"
    assert f"{bases.start}/skills/a.py nor at {bases.manifest}/skills/a.py" in problem.message


@pytest.mark.parametrize("entry", ["../a.py", "x/../../a.py", "a/../../../etc/passwd"])
def test_an_entry_that_climbs_is_reported(bases: ManifestBasePaths, entry: str) -> None:
    script(bases.start.parent / "a.py")
    assert only(resolve_paths(skill(entry), bases)).rule == "entry-outside"


def test_an_entry_that_is_a_link_to_elsewhere_is_reported(bases: ManifestBasePaths) -> None:
    outside = script(bases.start.parent / "a.py")
    (bases.start / "a.py").symlink_to(outside)
    problem = only(resolve_paths(skill("a.py"), bases))
    assert problem.rule == "entry-outside"
    assert "leads out of" in problem.message


def test_an_entry_below_a_linked_directory_is_reported(bases: ManifestBasePaths, tmp_path: Path) -> None:
    script(tmp_path / "elsewhere" / "a.py")
    (bases.start / "lib").symlink_to(tmp_path / "elsewhere")
    assert only(resolve_paths(skill("lib/a.py"), bases)).rule == "entry-outside"


def test_a_link_that_stays_is_resolved(bases: ManifestBasePaths) -> None:
    target = script(bases.start / "real.py")
    (bases.start / "a.py").symlink_to("real.py")
    found, _ = resolve_paths(skill("a.py"), bases)
    assert found is not None
    assert found.entry == str(target)


def test_a_link_to_itself_and_a_directory_are_not_entries(bases: ManifestBasePaths) -> None:
    (bases.start / "loop.py").symlink_to("loop.py")
    assert only(resolve_paths(skill("loop.py"), bases)).rule == "entry-missing"
    (bases.start / "dir.py").mkdir()
    assert only(resolve_paths(skill("dir.py"), bases)).rule == "entry-type"


def test_a_fifo_is_not_an_entry(bases: ManifestBasePaths) -> None:
    os.mkfifo(bases.start / "pipe.py")
    assert only(resolve_paths(skill("pipe.py"), bases)).rule == "entry-type"


def test_an_absolute_entry_is_taken_unless_it_climbs(bases: ManifestBasePaths, tmp_path: Path) -> None:
    outside = script(tmp_path / "a.py")
    found, problems = resolve_paths(skill(str(outside)), bases)
    assert found is not None
    assert (found.entry, problems) == (str(outside), ())
    assert only(resolve_paths(skill(f"{bases.start}/../a.py"), bases)).rule == "entry-outside"


def test_a_program_must_be_executable(bases: ManifestBasePaths) -> None:
    program = script(bases.start / "run")
    assert "chmod +x" in only(resolve_paths(skill("run", kind="cli:exec"), bases)).message
    program.chmod(0o755)
    found, _ = resolve_paths(skill("run", kind="cli:exec"), bases)
    assert found is not None


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "x/" * 3000])
def test_a_name_that_no_file_can_have_is_reported(bases: ManifestBasePaths, name: str) -> None:
    assert only(resolve_paths(skill(name), bases)).rule == "entry-outside"


def test_entries_that_are_not_files_are_left_alone(bases: ManifestBasePaths) -> None:
    for kind, entry in (("http", "https://example.org/../x"), ("inproc", "a:b"), ("docker", "echo:1")):
        found, problems = resolve_paths(skill(entry, kind=kind), bases)
        assert found is not None
        assert (found.entry, problems) == (entry, ())


def test_a_root_is_found_like_an_entry_and_may_be_the_base_itself(bases: ManifestBasePaths) -> None:
    script(bases.start / "a.py")
    (bases.manifest / "more").mkdir()
    for written, meant in (("./data", bases.start / "data"), ("more", bases.manifest / "more"), (".", bases.start)):
        found, problems = resolve_paths(skill("a.py", written), bases)
        assert found is not None
        assert (found.allowed_root, problems) == (meant, ())


def test_a_root_that_is_not_there_yet_is_a_warning_unless_it_is_the_hosts_own(bases: ManifestBasePaths) -> None:
    script(bases.start / "a.py")
    found, problems = resolve_paths(skill("a.py", "later"), bases)
    assert found is not None
    assert found.allowed_root == bases.start / "later"
    assert [(problem.rule, problem.severity) for problem in problems] == [("root-missing", "warning")]
    (bases.start / "data").rmdir()
    assert resolve_paths(skill("a.py", str(bases.start / "data")), bases)[1] == ()


@pytest.mark.parametrize(
    ("root", "rule"),
    [("..", "allowed-root-outside"), ("/etc", "root-outside"), ("a.py", "root-type"), ("out", "allowed-root-outside")],
)
def test_a_root_that_leaves_is_reported(bases: ManifestBasePaths, root: str, rule: str) -> None:
    script(bases.start / "a.py")
    (bases.start / "out").symlink_to("/etc")
    assert only(resolve_paths(skill("a.py", root), bases)).rule == rule


def test_a_root_that_the_operator_has_listed_is_allowed(bases: ManifestBasePaths, tmp_path: Path) -> None:
    script(bases.start / "a.py")
    listed = tmp_path / "listed"
    (listed / "part").mkdir(parents=True)
    found, problems = resolve_paths(
        skill("a.py", str(listed / "part")), ManifestBasePaths(bases.start, bases.manifest, (listed,))
    )
    assert found is not None
    assert (found.allowed_root, problems) == (listed / "part", ())


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path / "home"), "OPENSKILL_CLI_DIR": str(tmp_path / "cli")})


def folder(root: Path, name: str, more: str = "", *scripts: str) -> Path:
    path = root / "skills" / name
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name} well.\n{more}---\nBody.\n")
    for script in scripts:
        (path / script).parent.mkdir(exist_ok=True)
        (path / script).write_text("print()")
    return path


def hosted(tmp_path: Path, settings: Settings) -> Registry:
    return Registry(settings, skills=[tmp_path / "skills"], start=tmp_path)


def test_a_folder_that_names_its_entry_is_a_skill_of_the_host(tmp_path: Path, settings: Settings) -> None:
    more = "metadata:\n  entry: scripts/convert.py\n  version: 1.2.0\n"
    path = folder(tmp_path, "pdf-tools", more, "scripts/convert.py")
    registry = hosted(tmp_path, settings)
    found = registry.get("pdf_tools")
    assert (found.id, found.kind, found.entry) == ("pdf-tools", "cli:python", str(path / "scripts/convert.py"))
    assert (found.description, found.version) == ("Does pdf-tools well.", "1.2.0")
    assert found.origin == path / "SKILL.md"
    assert registry.get_entry("pdf-tools").problems == ()


def test_the_usual_entry_needs_no_naming_and_may_be_a_program(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "shell-tools", "", "scripts/invoke")
    (path / "scripts/invoke").chmod(0o755)
    assert hosted(tmp_path, settings).get("shell-tools").kind == "cli:exec"


def test_a_folder_without_scripts_is_not_hosted_and_the_reason_is_given(tmp_path: Path, settings: Settings) -> None:
    folder(tmp_path, "only-text", "", "scripts/data.json", "assets/tool.py")
    registry = hosted(tmp_path, settings)
    assert registry.list_entries() == ()
    assert registry.skipped == (SkippedFile("only-text", "only-text", "", "it has no scripts that can be served"),)
    with pytest.raises(UnknownSkill):
        registry.get("only-text")


def test_scripts_of_a_folder_without_manifest_are_skills_with_a_derived_schema(
    tmp_path: Path, settings: Settings
) -> None:
    more = "metadata:\n  version: 1.2.0\n"
    path = folder(tmp_path, "pdf", more, "scripts/fill_form.py", "scripts/office/pack.py", "scripts/__init__.py")
    (path / "scripts/fill_form.py").write_text('"""Fills a form.\n\nMore."""\nprint()')
    registry = hosted(tmp_path, settings)
    found = registry.get("pdf.fill_form")
    assert [one.id for one in registry.list_registrations()] == ["pdf.fill_form", "pdf.office.pack"]
    assert (found.kind, found.entry, found.version) == ("cli:script", str(path / "scripts/fill_form.py"), "1.2.0")
    assert found.description == "Fills a form. (scripts/fill_form.py of the skill pdf: Does pdf well.)"
    assert found.derived == "default"
    assert list((found.input_schema or {})["properties"]) == ["args", "stdin", "files"]
    assert (found.allowed_root, dict(found.environment), found.secrets) == (None, {}, ())
    assert registry.get("pdf--fill-form") is found
    assert [(one.script, one.reason) for one in registry.skipped] == [
        ("scripts/__init__.py", "it only marks a package")
    ]


def test_folders_with_a_manifest_or_entry_offer_nothing_else(tmp_path: Path, settings: Settings) -> None:
    folder(tmp_path, "with-entry", "", "scripts/invoke.py", "scripts/other.py")
    path = folder(tmp_path, "with-manifest", "", "scripts/run.py", "scripts/other.py")
    (path / "manifest.yaml").write_text("type: cli\nruntime: python\nentry: scripts/run.py\n")
    registry = hosted(tmp_path, settings)
    assert [one.id for one in registry.list_registrations()] == ["with-entry", "with-manifest"]
    assert registry.skipped == ()


@pytest.mark.parametrize(
    ("paths", "ids"),
    [
        (["scripts/run.py", "scripts/data.json"], ["x.run", "x.data"]),
        (["scripts/run.py", "scripts/run.json"], ["x.run", "x.run"]),
        (["scripts/run.py", "scripts/run.sh"], ["x.run.py", "x.run.sh"]),
        (["scripts/Run.py", "scripts/run.py"], [None, None]),
        (["scripts/a b.py", "scripts/a/b.py"], ["x.a_b", "x.a.b"]),
        (["scripts/ü.py"], ["x.x"]),
        (["scripts/tool"], ["x.tool"]),
    ],
)
def test_ids_of_scripts_never_stand_for_another_script(paths: list[str], ids: list[str | None]) -> None:
    found = build_ids("x", paths)
    assert [found.get(path) for path in paths] == ids
    assert all(ID_PATTERN.fullmatch(one) for one in found.values())


def test_long_ids_are_shortened_and_stay_valid_names_of_tools() -> None:
    paths = [f"scripts/{'deep/' * 20}{name}.py" for name in ("one", "two")]
    found = build_ids("s" * 64, paths)
    assert len(set(found.values())) == 2
    assert all(ID_PATTERN.fullmatch(one) and len(one.replace(".", "--")) <= 64 for one in found.values())


def test_a_manifest_of_the_operator_takes_precedence_over_a_derived_one(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf", "", "scripts/fill.py")
    settings.cli_dir.mkdir(parents=True)
    manifest = f"id: pdf.fill\ntype: cli\nruntime: script\nentry: {path}/scripts/fill.py\ntimeout_ms: 60000\n"
    (settings.cli_dir / "fill.yaml").write_text(manifest)
    registry = hosted(tmp_path, settings)
    found = registry.get("pdf.fill")
    assert (found.kind, found.timeout_ms, found.derived) == ("cli:script", 60000, "")
    (problem,) = [one for entry in registry.list_entries() for one in entry.problems]
    assert problem.rule == "id-taken"


def test_a_changed_added_or_removed_script_changes_the_registry(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf", "", "scripts/fill.py")
    registry = hosted(tmp_path, settings)
    (path / "scripts/fill.py").write_text("print(2)")
    assert registry.reload().changed == ("pdf.fill",)
    (path / "scripts/more.sh").write_text("echo")
    assert registry.reload().added == ("pdf.more",)
    (path / "scripts/fill.py").unlink()
    assert registry.reload().removed == ("pdf.fill",)
    assert not registry.reload()


def test_scripts_of_a_skill_that_is_hidden_from_models_say_so(tmp_path: Path, settings: Settings) -> None:
    folder(tmp_path, "pdf", "disable-model-invocation: true\n", "scripts/fill.py")
    (entry,) = hosted(tmp_path, settings).list_entries()
    assert (entry.id, entry.status, [problem.rule for problem in entry.problems]) == (
        "pdf.fill",
        "ready",
        ["skill-hidden"],
    )


def test_a_folder_with_very_many_scripts_serves_the_first_ones(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf", "", "scripts/a.sh")
    for number in range(201):
        (path / "scripts" / f"s{number:03}.sh").write_text("echo")
    registry = hosted(tmp_path, settings)
    assert len(registry.list_registrations()) == 200
    assert [(one.script, one.reason) for one in registry.skipped] == [
        (f"scripts/s{number}.sh", "the skill has more than 200 scripts") for number in (199, 200)
    ]


def test_a_manifest_in_the_folder_may_call_a_script_that_takes_arguments(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf", "", "scripts/fill.py")
    (path / "manifest.yaml").write_text("type: cli\nruntime: script\nentry: scripts/fill.py\n")
    assert (hosted(tmp_path, settings).get("pdf").kind, hosted(tmp_path, settings).skipped) == ("cli:script", ())


def test_help_is_only_read_if_it_is_allowed(
    tmp_path: Path, settings: Settings, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    path = folder(tmp_path, "pdf", "", "scripts/fill.py", "scripts/other.py")
    text = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--dpi')\np.parse_args()\n"
    (path / "scripts/fill.py").write_text(text)
    registry = Registry(settings, skills=[tmp_path / "skills"], start=tmp_path, read_help=True)
    found, other = registry.get("pdf.fill"), registry.get("pdf.other")
    assert (found.derived, other.derived) == ("help", "default")
    assert list((found.input_schema or {})["properties"]) == ["dpi", "args", "stdin", "files"]
    (problem,) = registry.get_entry("pdf.other").problems
    assert "--help printed no usage" in problem.message
    assert hosted(tmp_path, settings).get("pdf.fill").derived == "default"


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ("scripts/no.py", "entry-missing"),
        ("../../x.py", "entry-outside"),
        ("scripts", "entry-type"),
        ("/usr/bin/env", "entry-outside"),
        ("scripts/link.py", "entry-outside"),
    ],
)
def test_an_entry_that_cannot_be_called_is_reported(tmp_path: Path, settings: Settings, entry: str, rule: str) -> None:
    path = folder(tmp_path, "odd", f"metadata:\n  entry: {entry}\n", "scripts/x.py")
    (tmp_path / "outside.py").write_text("print()")
    (path / "scripts/link.py").symlink_to(tmp_path / "outside.py")
    (found,) = hosted(tmp_path, settings).list_entries()
    assert found.status == "broken"
    assert [problem.rule for problem in found.problems] == [rule]


def test_a_manifest_in_the_folder_counts_before_its_skill_md(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf-tools", "", "scripts/run.py")
    (path / "manifest.yaml").write_text("type: cli\nruntime: python\nentry: scripts/run.py\ntimeout_ms: 9\n")
    found = hosted(tmp_path, settings).get("pdf-tools")
    assert (found.timeout_ms, found.description) == (9, "Does pdf-tools well.")
    assert found.entry == str(path / "scripts/run.py")


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("executor: local", "executor"),
        ("python: ./evil", "python"),
        ("options: {python: ./evil}", "options"),
        ("type: http\nentry: http://127.0.0.1:1/", "type"),
        ("type: docker\nentry: image", "type"),
        ("type: inproc\nentry: os:getcwd", "type"),
        ("secrets: [OPENSKILL_API_KEY]", "secrets"),
        ("env: [PATH]", "env"),
        ("env: {LD_PRELOAD: x.so}", "env"),
        ("allowed_root: /", "allowed_root"),
        ("writable: true", "writable"),
        ("warm: reuse", "warm"),
        ("preload: [antigravity]", "preload"),
        ("args: [-x]", "args"),
        ("network: true", "network"),
        ("user: '0'", "user"),
        ("headers: {}", "headers"),
    ],
)
def test_a_manifest_in_the_folder_cannot_set_what_belongs_to_the_operator(
    tmp_path: Path, settings: Settings, line: str, field: str
) -> None:
    path = folder(tmp_path, "pdf-tools", "", "scripts/invoke.py")
    (path / "manifest.yaml").write_text(f"description: Mine.\n{line}\n")
    (entry,) = hosted(tmp_path, settings).list_entries()
    assert (entry.status, entry.registration) == ("broken", None)
    (problem,) = [problem for problem in entry.problems if problem.rule == "field-of-operator"]
    assert problem.message.startswith(f"{field}: ")
    assert "serve --manifests" in problem.message


def test_every_field_of_a_manifest_belongs_to_the_author_or_to_the_operator() -> None:
    assert set(FOLDER_FIELDS) < set(FIELDS)
    assert set(FIELDS) - set(FOLDER_FIELDS) == {
        "allowed_root", "digest", "env", "executor", "options", "preload", "secrets", "warm", "writable",
    }  # fmt: skip


def test_a_manifest_in_the_folder_can_only_lower_limits(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf-tools", "", "scripts/invoke.py")
    limits = "limits: {memory_bytes: null, processes: 5000, output_bytes: 1M, file_bytes: 1000, cpu_seconds: 7}"
    (path / "manifest.yaml").write_text(f"timeout_ms: 86400000\n{limits}\n")
    (entry,) = hosted(tmp_path, settings).list_entries()
    found = entry.registration
    assert found is not None
    assert found.timeout_ms == settings.timeout_ms
    assert found.limits == HostLimits(output_bytes=1024**2, file_bytes=1000, cpu_seconds=7)
    assert sorted(problem.message.split(" is above")[0] for problem in entry.problems) == [
        "limits: memory_bytes",
        "limits: processes",
        "timeout_ms: 86,400,000",
    ]


def test_a_manifest_of_the_host_with_the_same_id_counts_and_the_folder_is_reported(
    tmp_path: Path, settings: Settings
) -> None:
    folder(tmp_path, "pdf-tools", "", "scripts/invoke.py")
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "pdf-tools.yaml").write_text("type: inproc\nentry: a:b\n")
    registry = hosted(tmp_path, settings)
    assert registry.get("pdf-tools").kind == "inproc"
    assert [entry.status for entry in registry.list_entries()].count("broken") == 1


@pytest.mark.parametrize(("file", "text"), [("echo.py", "print('{}')\n"), ("echo.yaml", "type: cli\nentry: gone.py\n")])
def test_a_folder_cannot_take_the_id_of_a_script_or_broken_manifest_of_the_operator(
    tmp_path: Path, settings: Settings, file: str, text: str
) -> None:
    path = folder(tmp_path, "pdf-tools", "", "scripts/invoke.py")
    (path / "manifest.yaml").write_text("id: echo\n")
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / file).write_text(text)
    registry = hosted(tmp_path, settings)
    assert registry.get_entry("echo").origin == tmp_path / "cli" / file
    (refused,) = [entry for entry in registry.list_entries() if entry.origin == path / "manifest.yaml"]
    assert refused.status == "broken"
    assert refused.problems[-1].message == f"id: 'echo' is taken by {tmp_path / 'cli' / file}; use another id"


def test_a_folder_without_a_type_is_told_only_that(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf-tools", "", "scripts/run.py")
    (path / "manifest.yaml").write_text("entry: scripts/run.py\n")
    (entry,) = hosted(tmp_path, settings).list_entries()
    assert [problem.rule for problem in entry.problems] == ["field-missing"]


def test_folders_that_come_and_go_are_seen_by_reloading(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "skills").mkdir()
    registry = hosted(tmp_path, settings)
    path = folder(tmp_path, "pdf-tools", "", "scripts/invoke.py")
    assert registry.reload().added == ("pdf-tools",)
    (path / "SKILL.md").unlink()
    assert registry.reload().removed == ("pdf-tools",)


def test_without_directories_nothing_is_looked_at(settings: Settings) -> None:
    assert SkillFolders((), settings).scan() == ([], [], ())


def test_a_folder_with_another_digest_than_the_operator_pinned_is_refused(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf-tools", "", "scripts/invoke.py")
    (tmp_path / "deploy").mkdir()
    manifest = tmp_path / "deploy" / "pdf-tools.yaml"
    text = f"type: cli\nruntime: python\nentry: {path}/scripts/invoke.py\n"

    def load() -> Registry:
        manifests, skills = [tmp_path / "deploy"], [tmp_path / "skills"]
        return Registry(settings, manifests=manifests, skills=skills, start=tmp_path)

    def told(registry: Registry) -> str:
        with pytest.raises(InvalidSkill) as caught:
            registry.get("pdf-tools")
        return caught.value.message

    manifest.write_text(f"{text}digest: sha256:0\n")
    found = re.findall(r"sha256:[0-9a-f]+", told(load()))
    assert (found[1], found[0]) == ("sha256:0", found[2])
    manifest.write_text(f"{text}digest: {found[0]}\n")
    registry = load()
    assert registry.get("pdf-tools").digest == found[0]
    assert path in registry.directories
    # Any file of the folder counts, and its own manifest does not serve it instead.
    (path / "helper.py").write_text("print('new')")
    registry.reload()
    message = told(registry)
    assert found[0] in message
    assert "the skill is not served" in message
    assert len(set(re.findall(r"sha256:[0-9a-f]{64}", message))) == 2


def test_only_skills_in_a_folder_can_be_pinned(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "deploy").mkdir()
    text = "type: inproc\nentry: json:loads\ndigest: sha256:0\n"
    (tmp_path / "deploy" / "x.yaml").write_text(text)
    (entry,) = Registry(settings, manifests=[tmp_path / "deploy"], start=tmp_path).list_entries()
    assert entry.status == "broken"
    assert "have no folder" in entry.problems[0].message


def test_a_script_with_an_odd_name_does_not_take_the_id_of_another() -> None:
    found = build_ids("x", ["scripts/go.py", "scripts/go!.py"])
    assert "scripts/go.py" in found
    assert "scripts/go!.py" not in found
