"""A manifest to a registration."""

import json
from pathlib import Path

import pytest

from openskills.host.registration import HostLimits, Warmth
from openskills.host.registry.manifest import FIELDS, Defaults, Parsed, parse
from openskills.version import __version__

OF_THE_DOCUMENT = """\
id: calculator
type: cli
runtime: python
entry: ./skills_cli/calculator.py
timeout_ms: 15000
allowed_root: ./data
"""


NOTHING = Defaults()


def read(text: str, *, name: str = "file", is_json: bool = False, defaults: Defaults = NOTHING) -> Parsed:
    return parse(text.encode(), name=name, is_json=is_json, defaults=defaults)


def messages(parsed: Parsed) -> list[str]:
    return [problem.message for problem in parsed.problems]


def test_the_manifest_of_the_document_is_a_registration() -> None:
    parsed = read(OF_THE_DOCUMENT)
    assert parsed.problems == ()
    found = parsed.registration
    assert found is not None
    assert (found.id, found.kind, found.entry) == ("calculator", "cli:python", "./skills_cli/calculator.py")
    assert (found.timeout_ms, found.allowed_root, found.version) == (15_000, Path("data"), __version__)
    assert parsed.lines["timeout_ms"] == 5


def test_the_same_in_json_is_the_same_registration() -> None:
    fields = {
        "id": "calculator",
        "type": "cli",
        "runtime": "python",
        "entry": "./skills_cli/calculator.py",
        "timeout_ms": 15000,
        "allowed_root": "./data",
    }
    assert read(json.dumps(fields), is_json=True).registration == read(OF_THE_DOCUMENT).registration


def test_every_field_can_be_said() -> None:
    parsed = read(
        """\
id: convert_2
type: cli
runtime: exec
entry: bin/convert
version: 1.10
description: Converts things.
timeout_ms: 1
allowed_root: ./files
writable: true
input_schema: {type: object, required: [a]}
output_schema: {type: object}
env: {MODE: fast, LEVEL: 3}
secrets: [DATABASE_URL]
limits: {output_bytes: 1M, memory_bytes: null, processes: 4, file_bytes: 2G, cpu_seconds: 10, concurrency: 2}
executor: sandbox
warm: reuse
preload: [numpy, a.b]
args: [--fast]
options: {nice: 5}
"""
    )
    assert parsed.problems == ()
    found = parsed.registration
    assert found is not None
    assert (found.kind, found.version, found.description, found.writable) == (
        "cli:exec", "1.10", "Converts things.", True,
    )  # fmt: skip
    assert (found.input_schema, found.output_schema) == ({"type": "object", "required": ["a"]}, {"type": "object"})
    assert (found.environment, found.secrets) == ({"MODE": "fast", "LEVEL": "3"}, ("DATABASE_URL",))
    assert found.limits == HostLimits(1024**2, None, 4, 2 * 1024**3, 10, 2)
    assert (found.executor, found.warm, found.preload) == ("sandbox", Warmth.REUSE, ("numpy", "a.b"))
    assert found.options == {"args": ["--fast"], "nice": 5}


def test_what_a_manifest_does_not_say_comes_from_the_host() -> None:
    defaults = Defaults(timeout_ms=7, allowed_root=Path("/srv/data"), executor="container")
    found = read("type: cli\nruntime: python\nentry: x.py", name="x", defaults=defaults).registration
    assert found is not None
    assert (found.id, found.timeout_ms, found.allowed_root) == ("x", 7, Path("/srv/data"))
    assert found.executor == "container"


def test_null_is_no_directory_at_all() -> None:
    defaults = Defaults(allowed_root=Path("/srv/data"))
    found = read(
        "type: cli\nruntime: python\nentry: x.py\nallowed_root: null", name="x", defaults=defaults
    ).registration
    assert found is not None
    assert found.allowed_root is None


@pytest.mark.parametrize(
    ("kind", "runtime", "entry"),
    [
        ("http", "", "https://skills.example.org/echo"),
        ("docker", "", "registry.example.org/team/echo:1.0"),
        ("inproc", "", "package.module:function"),
    ],
)
def test_kinds_without_a_runtime_are_their_type_alone(kind: str, runtime: str, entry: str) -> None:
    found = read(f"type: {kind}\nentry: {entry}\nruntime: {runtime}").registration
    assert found is not None
    assert (found.kind, found.entry) == (kind, entry)


def test_a_runtime_that_means_nothing_is_a_warning() -> None:
    parsed = read("type: inproc\nruntime: python\nentry: a:b")
    assert parsed.registration is not None
    assert parsed.registration.kind == "inproc"
    assert messages(parsed) == ["runtime: is ignored: skills of type inproc have none"]


def test_a_runner_of_another_package_has_its_own_kinds_and_fields() -> None:
    parsed = read(
        "type: wasm\nruntime: wasi\nentry: m.wasm\nfuel: 1000", defaults=Defaults(kinds=("cli:python", "wasm:wasi"))
    )
    assert parsed.registration is not None
    assert (parsed.registration.kind, parsed.registration.options) == ("wasm:wasi", {"fuel": 1000})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "type: is missing; write one of cli, http, docker, inproc"),
        ("type: clii\nentry: x", "type: 'clii' is not one of cli, http, docker, inproc; did you mean cli?"),
        ("type: cli\nentry: x", "runtime: is missing; write one of python, exec"),
        ("type: cli\nruntime: ruby\nentry: x", "runtime: 'ruby' is not one of python, exec"),
        ("type: cli\nruntime: python", "entry: is missing; write the path of a script such as"),
        ("type: http\nentry: ftp://there/x", "entry: 'ftp://there/x' is not an address such as"),
        ("type: http\nentry: http://me:pw@there/x", "is not an address such as"),
        ("type: http\nentry: http://0177.0.0.1/", "entry: 'http://0177.0.0.1/' is not an address such as"),
        ("type: http\nentry: http://there:99999/", "is not an address such as"),
        ("type: http\nentry: 'http://[::1'", "is not an address such as"),
        ("type: docker\nentry: --privileged", "is not the name of an image"),
        ("type: docker\nentry: a b", "is not the name of an image"),
        ("type: inproc\nentry: os.system", "is not a callable such as package.module:function"),
        ("type: inproc\nentry: 'a:b()'", "is not a callable"),
        ('type: cli\nruntime: python\nentry: "a\\nb"', "entry: 'a\\nb' has characters that cannot be seen"),
        ("id: Calc\ntype: inproc\nentry: a:b", "id: 'Calc' is no id; use up to 64 of a-z"),
        ("id: ../x\ntype: inproc\nentry: a:b", "id: '../x' is no id"),
        ("id: " + "a" * 65 + "\ntype: inproc\nentry: a:b", "is no id"),
        ("type: inproc\nentry: a:b\ntimeout_ms: -5", "timeout_ms: -5 is no whole number from 1 to 86,400,000"),
        ("type: inproc\nentry: a:b\nlimits: 5", "limits: is a number; write a map"),
        ("type: inproc\nentry: a:b\nlimits: {output_bytes: null}", "limits.output_bytes: cannot be without a limit"),
        ("type: inproc\nentry: a:b\nexecutor: rm -rf", "executor: 'rm -rf' is no name of an executor"),
        ("type: inproc\nentry: a:b\npreload: ['os; x']", "preload: 'os; x' is no name of a module"),
        ("type: inproc\nentry: a:b\ninput_schema: {type: x}", "input_schema: is no JSON schema at type"),
        ("type: inproc\nentry: a:b\noptions: 5", "options: is a number; write a map"),
    ],
)  # fmt: skip
def test_a_wrong_field_leaves_no_registration_and_says_what_to_write(text: str, complaint: str) -> None:
    parsed = read(text)
    assert parsed.registration is None
    assert any(complaint in message for message in messages(parsed)), messages(parsed)


@pytest.mark.parametrize("value", ["[1]", "{a: 1}", "5", "-1", "true", "'x y'", "1e5", "''"])
@pytest.mark.parametrize("field", FIELDS)
def test_any_value_in_any_field_is_taken_or_told_and_never_raised(field: str, value: str) -> None:
    given = {"id": "x", "type": "cli", "runtime": "python", "entry": "x.py", field: value}
    parsed = read("\n".join(f"{name}: {text}" for name, text in given.items()))
    assert (parsed.registration is None) == any(problem.severity == "error" for problem in parsed.problems)
    assert all(problem.message.startswith((field, "entry", "limits", "runtime")) for problem in parsed.problems)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    parsed = read("type: x\ntimeout_ms: -5\nwarm: hot\nsecrets: A")
    assert {message.partition(":")[0] for message in messages(parsed)} == {
        "type",
        "entry",
        "timeout_ms",
        "warm",
        "secrets",
    }


def test_an_unknown_field_is_a_warning_and_ignored() -> None:
    parsed = read("type: inproc\nentry: a:b\ntimout_ms: 5\nlimits: {procesess: 5}")
    assert parsed.registration is not None
    assert parsed.registration.options == {}
    assert messages(parsed) == [
        "timout_ms: is no field of a manifest and is ignored; did you mean timeout_ms?",
        "limits.procesess: is no field of a manifest and is ignored; did you mean processes?",
    ]


def test_a_list_of_variables_passes_on_those_of_the_host() -> None:
    defaults = Defaults(environment={"LANG": "C", "OTHER": "x"})
    parsed = read("type: inproc\nentry: a:b\nenv: [LANG, NOWHERE]", defaults=defaults)
    assert parsed.registration is not None
    assert parsed.registration.environment == {"LANG": "C"}
    assert messages(parsed) == ["env: NOWHERE is not set where the host runs"]


def test_a_secret_of_the_host_is_not_passed_on_as_a_plain_value() -> None:
    defaults = Defaults(environment={"CLOUD_SECRET_KEY": "hunter2"})
    parsed = read("type: inproc\nentry: a:b\nenv: [CLOUD_SECRET_KEY]", defaults=defaults)
    assert parsed.registration is None
    assert messages(parsed) == ["env: CLOUD_SECRET_KEY looks like a secret; name it under secrets"]


def test_a_value_that_looks_like_a_secret_is_a_warning_that_does_not_repeat_it() -> None:
    parsed = read("type: inproc\nentry: a:b\nenv: {API_KEY: hunter2, MONKEY: x}")
    assert [problem.rule for problem in parsed.problems] == ["secret-in-manifest"]
    assert "hunter2" not in str(parsed.problems)


def test_the_name_of_a_file_that_is_no_id_is_told() -> None:
    parsed = read("type: inproc\nentry: a:b", name="My Skill")
    assert parsed.registration is None
    assert messages(parsed)[0].startswith("id: 'My Skill' (the name of the file) is no id")
