"""A manifest to a registration.

Values that remember how they were written.

Fields with their types, and what is said about wrong ones.

Manifests in JSON are read strictly.

Schemas are checked when a manifest is read.

The bytes of a manifest to values.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.host.model import HostLimits, SkillStartMethod
from openskills.host.registry.manifest import (
    FIELDS,
    MAX_MANIFEST_BYTES,
    VARIABLE_PATTERN,
    ManifestDefaults,
    ManifestReader,
    ManifestResult,
    duplicate_key_problem,
    parse_manifest,
    read_document,
    read_json,
    read_schema,
)
from openskills.version import __version__

OF_THE_DOCUMENT = """\
id: calculator
type: cli
runtime: python
entry: ./skills_cli/calculator.py
timeout_ms: 15000
allowed_root: ./data
"""


NOTHING = ManifestDefaults()


def read(
    text: str, *, name: str = "file", is_json: bool = False, defaults: ManifestDefaults = NOTHING
) -> ManifestResult:
    return parse_manifest(text.encode(), name=name, is_json=is_json, defaults=defaults)


def messages(parsed: ManifestResult) -> list[str]:
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
    assert (found.executor, found.warm, found.preload) == ("sandbox", SkillStartMethod.REUSE, ("numpy", "a.b"))
    assert found.options == {"args": ["--fast"], "nice": 5}


def test_what_a_manifest_does_not_say_comes_from_the_host() -> None:
    defaults = ManifestDefaults(timeout_ms=7, allowed_root=Path("/srv/data"), executor="container")
    found = read("type: cli\nruntime: python\nentry: x.py", name="x", defaults=defaults).registration
    assert found is not None
    assert (found.id, found.timeout_ms, found.allowed_root) == ("x", 7, Path("/srv/data"))
    assert found.executor == "container"


def test_null_is_not_a_directory_at_all() -> None:
    defaults = ManifestDefaults(allowed_root=Path("/srv/data"))
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
    assert messages(parsed) == ["runtime: is ignored: skills of type inproc have no runtime"]


def test_a_runner_of_another_package_has_its_own_kinds_and_fields() -> None:
    parsed = read(
        "type: wasm\nruntime: wasi\nentry: m.wasm\nfuel: 1000",
        defaults=ManifestDefaults(kinds=("cli:python", "wasm:wasi")),
    )
    assert parsed.registration is not None
    assert (parsed.registration.kind, parsed.registration.options) == ("wasm:wasi", {"fuel": 1000})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "type: missing; use one of cli, http, docker, inproc"),
        ("type: clii\nentry: x", "type: 'clii' is not one of cli, http, docker, inproc; did you mean cli?"),
        ("type: cli\nentry: x", "runtime: missing; use one of python, exec"),
        ("type: cli\nruntime: ruby\nentry: x", "runtime: 'ruby' is not one of python, exec"),
        ("type: cli\nruntime: python", "entry: missing; use the path of a script such as"),
        ("type: http\nentry: ftp://there/x", "entry: 'ftp://there/x' is not a URL such as"),
        ("type: http\nentry: http://me:pw@there/x", "is not a URL such as"),
        ("type: http\nentry: http://0177.0.0.1/", "entry: 'http://0177.0.0.1/' is not a URL such as"),
        ("type: http\nentry: http://there:99999/", "is not a URL such as"),
        ("type: http\nentry: 'http://[::1'", "is not a URL such as"),
        ("type: docker\nentry: --privileged", "is not an image name"),
        ("type: docker\nentry: a b", "is not an image name"),
        ("type: inproc\nentry: os.system", "is not a callable such as package.module:function"),
        ("type: inproc\nentry: 'a:b()'", "is not a callable"),
        ('type: cli\nruntime: python\nentry: "a\\nb"', "entry: 'a\\nb' contains unprintable characters"),
        ("id: Calc\ntype: inproc\nentry: a:b", "id: 'Calc' is not a valid id; use up to 64 of a-z"),
        ("id: ../x\ntype: inproc\nentry: a:b", "id: '../x' is not a valid id"),
        ("id: " + "a" * 65 + "\ntype: inproc\nentry: a:b", "is not a valid id"),
        ("type: inproc\nentry: a:b\ntimeout_ms: -5", "timeout_ms: -5 is not an integer from 1 to 86,400,000"),
        ("type: inproc\nentry: a:b\nlimits: 5", "limits: expected a map, got a number"),
        ("type: inproc\nentry: a:b\nlimits: {output_bytes: null}", "limits.output_bytes: must have a limit"),
        ("type: inproc\nentry: a:b\nexecutor: rm -rf", "executor: 'rm -rf' is not an executor name"),
        ("type: inproc\nentry: a:b\npreload: ['os; x']", "preload: 'os; x' is not a module name"),
        ("type: inproc\nentry: a:b\ninput_schema: {type: x}", "input_schema: not a valid JSON schema at type"),
        ("type: inproc\nentry: a:b\noptions: 5", "options: expected a map, got a number"),
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


def test_everything_that_is_wrong_is_reported_at_once() -> None:
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
        "timout_ms: unknown field, ignored; did you mean timeout_ms?",
        "limits.procesess: unknown field, ignored; did you mean processes?",
    ]


def test_a_list_of_variables_passes_on_those_of_the_host() -> None:
    defaults = ManifestDefaults(environment={"LANG": "C", "OTHER": "x"})
    parsed = read("type: inproc\nentry: a:b\nenv: [LANG, NOWHERE]", defaults=defaults)
    assert parsed.registration is not None
    assert parsed.registration.environment == {"LANG": "C"}
    assert messages(parsed) == ["env: NOWHERE is not set in the environment of the host"]


def test_a_secret_of_the_host_is_not_passed_on_as_a_plain_value() -> None:
    defaults = ManifestDefaults(environment={"CLOUD_SECRET_KEY": "hunter2"})
    parsed = read("type: inproc\nentry: a:b\nenv: [CLOUD_SECRET_KEY]", defaults=defaults)
    assert parsed.registration is None
    assert messages(parsed) == ["env: CLOUD_SECRET_KEY looks like a secret; list it under secrets"]


def test_a_value_that_looks_like_a_secret_is_a_warning_that_does_not_repeat_it() -> None:
    parsed = read("type: inproc\nentry: a:b\nenv: {API_KEY: hunter2, MONKEY: x}")
    assert [problem.rule for problem in parsed.problems] == ["secret-in-manifest"]
    assert "hunter2" not in str(parsed.problems)


def test_the_name_of_a_file_that_is_not_an_id_is_reported() -> None:
    parsed = read("type: inproc\nentry: a:b", name="My Skill")
    assert parsed.registration is None
    assert messages(parsed)[0].startswith("id: 'My Skill' (the name of the file) is not a valid id")


def test_what_a_value_means_is_had_without_how_it_was_written() -> None:
    assert read_document(b"a: [1.0, no]\nb:\n", is_json=False).fields == {"a": [1.0, "no"], "b": None}


def test_places_are_lines_and_columns_of_the_text() -> None:
    assert read_document(b"a: 1\nb: '2'", is_json=False).positions == {("a",): (1, 4), ("b",): (2, 4)}


def test_a_long_key_that_stands_twice_is_cut_in_the_message() -> None:
    assert len(duplicate_key_problem("k" * 1000).message) < 120


def fields(text: str, *, is_json: bool = False) -> ManifestReader:
    return ManifestReader(read_document(text.encode(), is_json=is_json))


def messages_fields(found: ManifestReader) -> list[str]:
    return [problem.message for problem in found.problems]


def test_right_values_are_read_and_absent_or_null_ones_have_their_default() -> None:
    found = fields("t: 1.0\nw: b\nn: 5\nf: false\nl: 2K\nnames: [A, B, A]\nenv: {X: 1, Y: yes}\nnull_: ~\n")
    assert found.read_text("t") == "1.0"
    assert found.read_choice("w", ("a", "b"), "a") == "b"
    assert found.read_integer("n", 1, 1, 9) == 5
    assert found.read_flag("f", True) is False
    assert found.read_limit("l", None, maximum=5000) == 2048
    assert found.read_names("names", VARIABLE_PATTERN, "a name") == ("A", "B")
    assert found.read_variables("env") == {"X": "1", "Y": "yes"}
    assert (found.read_text("null_", "d"), found.read_integer("absent", 3, 1, 9), found.read_flag("absent", True)) == (
        "d",
        3,
        True,
    )
    assert (found.read_limit("absent", 7, maximum=9), found.read_limit("null_", 7, maximum=9)) == (7, None)
    assert found.is_null("null_")
    assert not found.is_null("absent")
    assert messages_fields(found) == []


WRONG: list[tuple[str, Callable[[ManifestReader], object], object, str]] = [
    ("x: [1]", lambda found: found.read_text("x", "d"), "d", "x: expected a string, got a list"),
    ("x: {a: 1}", lambda found: found.read_text("x", "d"), "d", "x: expected a string, got a map"),
    ("x: aaaa", lambda found: found.read_text("x", "d", max_length=3), "d", "x: is longer than 3 characters"),
    (
        "x: ba",
        lambda found: found.read_choice("x", ("bar", "foo"), "foo"),
        "foo",
        "'ba' is not one of bar, foo; did you mean bar",
    ),
    ("x: A", lambda found: found.read_match("x", "[a-z]", "a small letter", "d"), "d", "x: 'A' is not a small letter"),
    ("x: -5", lambda found: found.read_integer("x", 2, 1, 9), 2, "x: -5 is not an integer from 1 to 9"),
    ("x: '5'", lambda found: found.read_integer("x", 2, 1, 9), 2, "x: '5' is not an integer"),
    ("x: 5.0", lambda found: found.read_integer("x", 2, 1, 9), 2, "x: 5.0 is not an integer"),
    ("x: true", lambda found: found.read_integer("x", 2, 1, 9), 2, "x: true is not an integer"),
    ("x: [5]", lambda found: found.read_integer("x", 2, 1, 9), 2, "x: a list is not an integer"),
    ("x: yes", lambda found: found.read_flag("x", False), False, "x: 'yes' is not a boolean"),
    ("x: 1", lambda found: found.read_flag("x", False), False, "x: 1 is not a boolean"),
    ("x: 0", lambda found: found.read_limit("x", 2, maximum=9), 2, "x: 0 is not a number from 1 to 9"),
    ("x: 1Q", lambda found: found.read_limit("x", 2, maximum=9), 2, "x: '1Q' is not a number from 1 to 9"),
    ("x: 1K", lambda found: found.read_limit("x", 2, maximum=9), 2, "x: '1K' is not a number from 1 to 9"),
    ("x: true", lambda found: found.read_limit("x", 2, maximum=9), 2, "x: true is not a number"),
    (
        "x: A",
        lambda found: found.read_names("x", VARIABLE_PATTERN, "a name"),
        (),
        "x: expected a list of names, got a string",
    ),
    ("x: [1A]", lambda found: found.read_names("x", VARIABLE_PATTERN, "a name"), (), "x: '1A' is not a name"),
    ("x: [[A]]", lambda found: found.read_names("x", VARIABLE_PATTERN, "a name"), (), "x: a list is not a name"),
    ("x: [A]", lambda found: found.read_variables("x"), {}, "x: expected a map, got a list"),
    ("x: {1A: v}", lambda found: found.read_variables("x"), {}, "x: '1A' is not a variable name"),
    ("x: {A: [v]}", lambda found: found.read_variables("x"), {}, "x: A: expected a string, got a list"),
]


@pytest.mark.parametrize(("text", "read", "default", "complaint"), WRONG)
def test_a_wrong_value_is_a_problem_with_field_and_line_and_the_default_counts(
    text: str, read: Callable[[ManifestReader], object], default: object, complaint: str
) -> None:
    found = fields(f"# first line\n{text}")
    assert read(found) == default
    (problem,) = found.problems
    assert complaint in problem.message
    assert problem.line == 2


def test_numbers_of_json_are_not_text() -> None:
    found = fields('{"version": 1.0}', is_json=True)
    assert found.read_text("version", "d") == "d"
    assert messages_fields(found) == ["version: expected a string, got a number"]


def test_a_list_without_end_is_refused() -> None:
    found = fields("x: [" + "A," * 300 + "]")
    assert found.read_names("x", VARIABLE_PATTERN, "a name") == ()
    assert "has 300 items" in messages_fields(found)[0]


def test_what_stands_where_the_name_of_a_secret_belongs_is_not_repeated() -> None:
    found = fields("secrets: [GOOD, TOKEN=hunter2, sk-hunter2, {KEY: hunter2}]")
    assert found.read_names("secrets", VARIABLE_PATTERN, "a variable name", secret=True) == ("GOOD",)
    assert [re.sub(r"\d", "N", message) for message in messages_fields(found)] == [
        "secrets: item N is not a variable name"
    ] * 3
    assert "hunter2" not in str(found.problems)


def test_an_unknown_field_is_a_warning_with_the_nearest_name() -> None:
    found = fields("timout_ms: 5\n" + "z" * 500 + ": 1\n")
    found.warn_unknown(("timeout_ms", "entry"))
    assert messages_fields(found)[0] == "timout_ms: unknown field, ignored; did you mean timeout_ms?"
    assert len(messages_fields(found)[1]) < 200
    assert {problem.severity.value for problem in found.problems} == {"warning"}


def test_fields_below_a_map_say_so() -> None:
    document = read_document(b"limits:\n  processes: none\n", is_json=False)
    found = ManifestReader(document, "limits")
    found.read_limit("processes", 1, maximum=5)
    assert str(found.problems[0]).startswith(":2:14: error: limits.processes: 'none' is not a number")


def test_nothing_is_below_what_is_not_a_map() -> None:
    found = ManifestReader(read_document(b"limits: 5\n", is_json=False), "limits")
    assert found.read_limit("processes", 3, maximum=5) == 3


def test_values_keep_the_types_of_json_and_have_lines() -> None:
    document = read_json('{"id": "x",\n "timeout_ms": 5, "input_schema": {"enum": [true, null, 1.5, "1"]}}')
    assert document.fields == {
        "id": "x",
        "timeout_ms": 5,
        "input_schema": {"enum": [True, None, 1.5, "1"]},
    }
    assert document.positions["timeout_ms",] == (2, 16)


def test_json_that_is_not_yaml_is_read_without_lines() -> None:
    document = read_json('{\n\t"id":\t"\\ud83d\\ude00"}')
    assert document.fields["id"] == "😀"
    assert document.positions == {}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "json-syntax"),
        ("{", "json-syntax"),
        ('{"a": 1} x', "json-syntax"),
        ("[1]", "manifest-mapping"),
        ("5", "manifest-mapping"),
        ('{"a": NaN}', "json-number"),
        ('{"a": -Infinity}', "json-number"),
        ('{"a": 1e999}', "json-number"),
        ('{"a": ' + "9" * 5000 + "}", "json-number"),
        ('{"a": 1, "a": 2}', "key-twice"),
        ('{"a": {"b": 1, "b": 1}}', "key-twice"),
        ('{"a": "\\ud800"}', "text-surrogate"),
        ('{"\\udfff": 1}', "text-surrogate"),
        ('{"a": ' + "[" * 40 + "]" * 40 + "}", "json-depth"),
        ("[" * 200_000, "json-depth"),
        ('{"a": [' + "1," * 11_000 + "1]}", "json-keys"),
    ],
)
def test_what_json_does_not_allow_or_a_manifest_cannot_need_is_one_problem(text: str, rule: str) -> None:
    document = read_json(text)
    assert [problem.rule for problem in document.problems] == [rule]
    assert not document.fields


def test_a_fault_of_syntax_has_its_line() -> None:
    (problem,) = read_json('{\n"a": 1,\n]').problems
    assert (problem.line, problem.column) == (3, 1)


def fields_schema_fields(text: str) -> ManifestReader:
    return ManifestReader(read_document(text.encode(), is_json=False))


def test_a_schema_has_the_types_that_yaml_means() -> None:
    found = fields_schema_fields(
        "s:\n  type: object\n  properties: {n: {type: integer, minimum: 1}, w: {enum: ['1', no, true]}}\n"
    )
    assert read_schema(found, "s") == {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}, "w": {"enum": ["1", "no", True]}},
    }
    assert found.problems == []


def test_no_schema_is_none_and_an_empty_one_allows_everything() -> None:
    assert read_schema(fields_schema_fields("a: 1"), "s") is None
    assert read_schema(fields_schema_fields("s: {}"), "s") == {}


@pytest.mark.parametrize(
    ("text", "complaint", "line"),
    [
        ("s:\n  type: objekt", "s: not a valid JSON schema at type", 2),
        (
            "s:\n  properties:\n    a: {minimum: x}",
            's: not a valid JSON schema at properties.a.minimum: "x" is not of type',
            3,
        ),
        ("s:\n  properties:\n    a: {pattern: '('}", "not a valid JSON schema at properties.a.pattern", 3),
        ("s: {$ref: '#/nowhere'}", "not a valid JSON schema", 1),
        ("s: {$ref: 'http://127.0.0.1:9/x.json'}", "not a valid JSON schema", 1),
        ("s: {$ref: 'file:///etc/passwd'}", "not a valid JSON schema", 1),
        ("s: {$schema: 'http://127.0.0.1:9/mine'}", "not a valid JSON schema", 1),
        ("s: [1]", "s: expected a map, got a list", 1),
        ("s: true", "s: expected a map, got a boolean", 1),
    ],
)
def test_what_is_not_a_schema_is_reported_with_its_place_and_nothing_is_fetched(
    text: str, complaint: str, line: int
) -> None:
    found = fields_schema_fields(text)
    assert not read_schema(found, "s")
    (problem,) = (each for each in found.problems if each.severity == "error")
    assert complaint in problem.message
    assert problem.line == line
    assert len(problem.message) < 700


def test_a_schema_of_something_else_than_an_object_is_a_warning() -> None:
    found = fields_schema_fields("s: {type: array}")
    assert read_schema(found, "s") == {"type": "array"}
    assert [problem.rule for problem in found.problems] == ["schema-type"]


def test_a_schema_that_refers_to_itself_is_a_schema() -> None:
    found = fields_schema_fields("s: {$defs: {a: {$ref: '#/$defs/b'}, b: {$ref: '#/$defs/a'}}, $ref: '#/$defs/a'}")
    assert read_schema(found, "s")
    assert found.problems == []


def rules(data: bytes) -> list[str]:
    return [problem.rule for problem in read_document(data, is_json=False).problems]


def test_an_unquoted_scalar_has_its_text_and_its_meaning() -> None:
    text = b"a: 15000\nb: 1.0\nc: true\nd: no\ne: '7'\nf: 0x10\ng: .inf\nh: 1e999\ni: 2026-01-01\nj: ~\nk:\nl: |\n  5\n"
    document = read_document(text, is_json=False)
    assert document.fields == {
        "a": 15000,
        "b": 1.0,
        "c": True,
        "d": "no",
        "e": "7",
        "f": "0x10",
        "g": ".inf",
        "h": "1e999",
        "i": "2026-01-01",
        "j": None,
        "k": None,
        "l": "5\n",
    }
    assert document.texts["b",] == "1.0"


def test_a_number_of_absurd_length_stays_text() -> None:
    assert read_document(b"a: " + b"9" * 10_000, is_json=False).fields["a"] == "9" * 10_000


def test_every_value_has_its_place() -> None:
    document = read_document(b"id: x\nlimits:\n  processes: 5\nsecrets: [A, B]\n", is_json=False)
    assert document.positions["limits", "processes"] == (3, 14)
    assert document.positions["secrets", 1] == (4, 14)


def test_an_empty_manifest_has_no_fields_and_no_problem() -> None:
    assert read_document(b"", is_json=False).fields == {}
    assert rules(b"# only a comment\n") == []


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"a: &x [1]\nb: *x", "yaml-alias"),
        (b"a: &a [x]\nb: &b [*a,*a]\nc: &c [*b,*b]", "yaml-alias"),
        (b"a: !!python/object/apply:os.system [id]", "yaml-tag"),
        (b"a: 1\na: 2", "key-twice"),
        (b"a: {b: 1, b: 2}", "key-twice"),
        (b"- a\n- b", "manifest-mapping"),
        (b"just text", "manifest-mapping"),
        (b"a: 1\n---\nb: 2", "yaml-syntax"),
        (b"a: [1", "yaml-syntax"),
        (b"a: 'x\x00y'", "yaml-syntax"),
        (b'a: "\\ud800"', "yaml-syntax"),
        (b"a: \xff", "text-encoding"),
        (b"\xff\xfea\x00:\x00", "text-encoding"),
        (b"a: " + b"[" * 100 + b"]" * 100, "yaml-depth"),
        (b"a: [" + b"1," * 20_000 + b"]", "yaml-keys"),
        (b"a: " + b"x" * MAX_MANIFEST_BYTES, "file-size"),
        (b"x" * 10_000_000, "file-size"),
    ],
)
def test_hostile_yaml_is_refused_with_a_problem(data: bytes, rule: str) -> None:
    assert rules(data) == [rule]


def test_messages_speak_of_a_manifest() -> None:
    (problem,) = read_document(b"a: 1\n---\nb: 2", is_json=False).problems
    assert problem.message == "not YAML: a second document begins inside the manifest"
    assert problem.line == 2


def test_a_byte_order_mark_is_not_part_of_the_first_field() -> None:
    assert list(read_document(b"\xef\xbb\xbfid: x", is_json=False).fields) == ["id"]
    assert list(read_document(b'\xef\xbb\xbf{"id": "x"}', is_json=True).fields) == ["id"]
