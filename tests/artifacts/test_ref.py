"""References and names from outside are taken apart by a parser; what is hostile is refused with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.ref import checked_name, checked_version, parse_ref
from openskills.errors import ForbiddenPath, InvalidArgument, SkillError


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("artifact://plot.png", "plot.png", None),
        ("artifact://plot.png@0", "plot.png", 0),
        ("artifact://out/a/b.csv@12", "out/a/b.csv", 12),
        ("artifact://user:profile.json@3", "user:profile.json", 3),
        ("artifact://plot@2x.png", "plot@2x.png", None),
        ("artifact://plot@2x.png@1", "plot@2x.png", 1),
        ("artifact://a@1@2", "a@1", 2),
        ("artifact://me@example.org", "me@example.org", None),
        ("artifact://图 表.png@4", "图 表.png", 4),
        ("artifact://Bildschirmfoto um 1.00.00\u202fPM.png", "Bildschirmfoto um 1.00.00\u202fPM.png", None),
        ("artifact://👩\u200d🔬.txt", "👩\u200d🔬.txt", None),
        ("artifact://a//b/./c@1", "a/b/c", 1),
        ("artifact://%2e%2e/x", "%2e%2e/x", None),
        ("artifact://a?b#c@1", "a?b#c", 1),
        ("artifact://C:\\x", "C:\\x", None),
        ("artifact://a@٣", "a@٣", None),
        ("artifact://~/$HOME", "~/$HOME", None),
    ],
)
def test_a_reference_is_a_name_and_perhaps_a_version(text: str, name: str, version: int | None) -> None:
    assert parse_ref(text) == (name, version)


@pytest.mark.parametrize(
    "text",
    [
        "artifact://a@../../b",
        "artifact://../../b",
        "artifact://a/../../b@1",
        "artifact:///etc/passwd",
        "artifact:///etc/passwd@0",
        "artifact://user:../other",
        "artifact://user:/etc/passwd",
        "artifact://..",
    ],
)
def test_a_reference_that_climbs_or_is_absolute_is_forbidden(text: str) -> None:
    with pytest.raises(ForbiddenPath, match="artifact: "):
        parse_ref(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no artifact; write artifact://name or artifact://name@version"),
        ("plot.png", "is no artifact"),
        ("artifact:plot.png", "is no artifact"),
        ("ARTIFACT://plot.png", "is no artifact"),
        ("workspace://out/plot.png", "is no artifact"),
        (" artifact://a", "is no artifact"),
        ("artifact://", "'' is no name for an artifact"),
        ("artifact://@3", "'' is no name"),
        ("artifact://user:", "'user:' is no name"),
        ("artifact://user:@1", "'user:' is no name"),
        ("artifact://.", "names no file"),
        ("artifact://a@", "ends with '@'; write a version after it, or leave it out"),
        ("artifact://a@01", "'01' is no version; write a number such as 0 or 12"),
        ("artifact://a@" + "9" * 19, "is no version"),
        ("artifact://a@" + "9" * 5000, "is no version"),
        ("artifact://a\0b", r"invisible character \('\\x00'\)"),
        ("artifact://a\nb@1", r"invisible character \('\\n'\)"),
        ("artifact://a\x1b[2J", "invisible character"),
        ("artifact://\u202egnp.exe", r"invisible character \('\\u202e'\)"),
        ("artifact://a\u2028b", "invisible character"),
        ("artifact://half\ud83d", "half a character"),
        ("artifact://" + "x" * 1025, "a name of 1,025 characters is too long; 1,024 is the most"),
        ("artifact://" + "x" * 256, "too long"),
    ],
)
def test_what_is_no_reference_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as raised:
        parse_ref(text)
    assert raised.value.field == "artifact"


def test_the_error_names_the_field_of_the_caller_and_stays_short() -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse_ref("x" * 1_000_000, field="inputs[0].from")
    assert str(raised.value).startswith("inputs[0].from: ")
    assert len(str(raised.value)) < 300


def test_names_have_one_spelling() -> None:
    spellings = ("a/b", "a//b", "./a/b", "a/./b/", "a/b//")
    assert {checked_name(name) for name in spellings} == {"a/b"}
    assert checked_name("user:a//b") == "user:a/b"


def test_a_negative_version_is_refused() -> None:
    assert checked_version(None) is None
    assert checked_version(0) == 0
    with pytest.raises(InvalidArgument, match="version: -1 is no version; the first one is 0"):
        checked_version(-1)


@given(st.text(max_size=40), st.integers(0, 10**17))
def test_a_name_that_is_accepted_is_found_again_in_its_reference(name: str, version: int) -> None:
    try:
        checked = checked_name(name)
    except SkillError:
        return
    assert checked_name(checked) == checked
    assert parse_ref(f"artifact://{checked}@{version}") == (checked, version)
    assert not {"", ".", ".."} & set(checked.removeprefix("user:").split("/"))


@given(st.text(alphabet="a@/.:0123456789\0 é", max_size=30))
def test_any_text_is_a_reference_or_a_clear_error(text: str) -> None:
    try:
        name, version = parse_ref(f"artifact://{text}")
    except (InvalidArgument, ForbiddenPath):
        return
    assert checked_name(name) == name
    assert version is None or version >= 0
