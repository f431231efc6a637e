"""The bytes of a manifest to values."""

import pytest

from openskills.host.registry.document import Scalar, plain
from openskills.host.registry.yaml_text import MAX_MANIFEST_BYTES, read_document


def rules(data: bytes) -> list[str]:
    return [problem.rule for problem in read_document(data, is_json=False).problems]


def test_an_unquoted_scalar_has_its_text_and_its_meaning() -> None:
    text = b"a: 15000\nb: 1.0\nc: true\nd: no\ne: '7'\nf: 0x10\ng: .inf\nh: 1e999\ni: 2026-01-01\nj: ~\nk:\nl: |\n  5\n"
    fields = read_document(text, is_json=False).fields
    assert {name: plain(node) for name, node in fields.items()} == {
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
    assert fields["b"] == Scalar("1.0", 1.0)


def test_a_number_of_absurd_length_stays_text() -> None:
    assert plain(read_document(b"a: " + b"9" * 10_000, is_json=False).fields["a"]) == "9" * 10_000


def test_every_value_has_its_place() -> None:
    document = read_document(b"id: x\nlimits:\n  processes: 5\nsecrets: [A, B]\n", is_json=False)
    assert document.places["limits", "processes"] == (3, 14)
    assert document.places["secrets", 1] == (4, 14)


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


def test_a_byte_order_mark_is_no_part_of_the_first_field() -> None:
    assert list(read_document(b"\xef\xbb\xbfid: x", is_json=False).fields) == ["id"]
    assert list(read_document(b'\xef\xbb\xbf{"id": "x"}', is_json=True).fields) == ["id"]
