"""Patterns: what they match, that hostile ones cost nothing, and what is refused.

Braces: the patterns that they stand for.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.globs import compile_globs, escape_glob, expand_braces


@pytest.mark.parametrize("pattern", ["\ud800", "out/\ud800*", "out/[\udfff]"])
def test_a_lone_surrogate_is_refused_and_a_name_that_is_not_utf_8_is_not(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        compile_globs([pattern])
    assert compile_globs(["out/\udcff*"]).matches("out/\udcffx")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("out/*.txt", "out/a.txt"),
        ("out/**", "out/a.txt"),
        ("out/**", "out/deep/er/.hidden"),
        ("out/", "out/deep/a.txt"),
        ("**/*.csv", "a.csv"),
        ("**/*.csv", "out/x/a.csv"),
        ("**/**/**/**/*", "a"),
        ("out/**/b/**/c", "out/b/x/y/c"),
        ("out/?.txt", "out/é.txt"),
        ("out/[a-c]*", "out/b1"),
        ("out/[!a-c]*", "out/d1"),
        ("out/[]]", "out/]"),
        ("out/[a-]", "out/-"),
        ("out/{a,b}.{txt,md}", "out/b.md"),
        ("{out,work}/**", "work/x"),
        ("out/{a,{b,c}}", "out/c"),
        ("out/{a}", "out/{a}"),
        (r"out/\*", "out/*"),
        (r"out/\[x\]", "out/[x]"),
        ("$OUTPUT_DIR/*.txt", "out/a.txt"),
        ("${WORK_DIR}/x", "work/x"),
        ("$WORKSPACE_DIR/out/**", "out/a"),
        ("inputs/*.csv", "work/inputs/a.csv"),
        ("skills/pdf/out/*", "out/a"),
        ("skills/pdf/inputs/**", "work/inputs/a"),
        ("./out//a", "out/a"),
        ("out/*a*b*", "out/xxaxxbxx"),
        ("out/a**b", "out/axb"),
        ("out/~/x", "out/~/x"),
        ("out/$HOME", "out/$HOME"),
        ("out/..%2f", "out/..%2f"),
        ("out/-rf", "out/-rf"),
        ("out/line\nbreak*", "out/line\nbreak.txt"),
    ],
)
def test_a_pattern_matches_what_it_says(pattern: str, path: str) -> None:
    assert compile_globs([pattern]).matches(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("out/*.txt", "out/a/b.txt"),
        ("out/*.txt", "work/a.txt"),
        ("out/**", "out"),
        ("out/a", "out/a/b"),
        ("out/[a-c]", "out/d"),
        ("out/[!a-c]", "out/a"),
        ("out/*", "out/.arriving-1234"),
        ("**", ".arriving-1/x"),
        (r"out/\*", "out/a"),
        ("out/A.txt", "out/a.txt"),
        ("out/?", "out/ab"),
        ("out/*ab*ab*", "out/xabx"),
    ],
)
def test_a_pattern_matches_nothing_else(pattern: str, path: str) -> None:
    assert not compile_globs([pattern]).matches(path)


@pytest.mark.parametrize(
    "pattern",
    [
        "../x",
        "out/../../x",
        "/etc/passwd",
        "$OUTPUT_DIR/../../x",
        "out/..",
        "{..,out}/x",
        r"out/\.\./x",
        "{/etc,out}/*",
    ],
)
def test_a_pattern_that_leaves_the_workspace_is_forbidden(pattern: str) -> None:
    with pytest.raises(ForbiddenPath):
        compile_globs([pattern])


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "invalid pattern"),
        ("a\0b", "invalid pattern"),
        (".", "does not match any file"),
        ("$WORKSPACE_DIR", "does not match any file"),
        ("out/[", r"unclosed '\['"),
        ("out/[a", r"unclosed '\['"),
        ("out/[z-a]", "invalid range"),
        ("out/a\\", "backslash"),
        ("x" * 10_000, "the maximum is 1,024"),
        ("a/" * 100 + "b", "the maximum is 64"),
        ("{a,b}" * 10, "more than 64"),
        ("$HOME/x", r"unknown variable \$HOME"),
    ],
)
def test_what_is_not_a_pattern_is_refused_with_its_fault(pattern: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        compile_globs([pattern])


def test_too_many_patterns_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="more than 256"):
        compile_globs(["out/*"] * 257)


def test_a_run_directory_can_be_named_when_there_is_one() -> None:
    assert compile_globs(["$RUN_DIR/*.log"], run_dir="runs/r1").matches("runs/r1/a.log")


def test_a_hostile_pattern_is_held_against_a_deep_path_in_one_pass() -> None:
    # Trying every way to share the path among the stars would take longer than anybody waits.
    globs = compile_globs(["/".join(["**", "a"] * 30) + "/b"])
    assert not globs.matches("/".join("a" * 1_000))
    assert globs.matches("/".join("a" * 1_000) + "/b")


def test_a_hostile_part_is_matched_without_going_back() -> None:
    # With an ordinary translation this takes longer than anybody waits.
    assert not compile_globs(["out/" + "*a" * 30 + "*b"]).matches("out/" + "a" * 250)


def test_a_directory_that_nothing_can_match_in_is_known_without_reading_it() -> None:
    start = compile_globs(["out/*.txt", "work/a/b"]).start
    assert start.names == {"out", "work"}
    assert not start.descend("skills")
    assert start.descend("out").names is None
    assert start.descend("work").names == {"a"}


def test_below_any_directories_the_position_stays_the_same_object() -> None:
    position = compile_globs(["**"]).start
    assert position.descend("x") is position


@given(st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=40))
def test_an_escaped_path_matches_itself(name: str) -> None:
    if name in (".", ".."):
        return
    path = f"out/{name}"
    globs = compile_globs([escape_glob(path)])
    assert globs.matches(path) or name.startswith(".arriving-")
    assert globs.start.descend("out").names == {name}


@given(st.text(st.sampled_from("ab*?[]{},!-\\./"), max_size=30))
def test_any_text_compiles_or_is_refused_by_name(text: str) -> None:
    try:
        globs = compile_globs([text])
    except (InvalidArgument, ForbiddenPath):
        return
    globs.matches("a/b/ab")


@given(
    st.text(st.sampled_from("ab*?"), min_size=1, max_size=8).filter(lambda text: "**" not in text),
    st.text(st.sampled_from("ab"), min_size=1, max_size=8),
)
def test_a_part_matches_as_a_simple_matcher_says(pattern: str, name: str) -> None:
    assert compile_globs([pattern]).matches(name) == simple_match(pattern, name)


def simple_match(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(simple_match(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and simple_match(pattern[1:], name[1:])


@pytest.mark.parametrize(
    ("pattern", "stands_for"),
    [
        ("a", ["a"]),
        ("{a,b}", ["a", "b"]),
        ("x{a,b}y{1,2}", ["xay1", "xay2", "xby1", "xby2"]),
        ("{a,{b,c}}", ["a", "b", "c"]),
        ("{a,}", ["a", ""]),
        ("{a}", ["{a}"]),
        ("{}", ["{}"]),
        ("{a,b", ["{a,b"]),
        ("a,b}", ["a,b}"]),
        (r"\{a,b\}", [r"\{a,b\}"]),
        ("[{,}]", ["[{,}]"]),
        ("[{a,b}", ["[a", "[b"]),
    ],
)
def test_braces_stand_for_each_of_their_words(pattern: str, stands_for: list[str]) -> None:
    assert expand_braces(pattern, field="glob") == stands_for


def test_braces_that_explode_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="more than 64"):
        expand_braces("{a,b}" * 100, field="glob")
