"""Scripts for sed that start programs are told from those that do not."""

import pytest

from openskills.executors.rules.sed_scripts import starts_something

HARMLESS = [
    *("s/a/b/", "s/e/e/g", "1,5p", "$d", "/re/d", "s|a|b|2w out", "/a/,/b/{s/x/y/;d}", "y/abe/xye/", "0~3p", "1~2!d"),
    *(":a;N;$!ba;s/\\n/ /g", "1i\\\ne foo", "a text e", "s/[^/]*$//", "s/[[:alpha:]/]e/x/", "\\,e,p", "/e/I,+3p", "5q"),
    *("# e", "s#a#e#;p", "r file\np", "/a/b end;d;:end", "s/\\/e/x/", "n;d", "s/a/b/I3", "=;p;x;G", "be", ""),
]
STARTING = [
    *("e", "e cat", "1e cat", "1!e cat", "/a/e", "$!{e cat\n}", "s/a/cat/e", "s/a/cat/ge", "s/a/b/;e x", "{e", "}e"),
    *("s/a/b/w f\ne x", "a text\ne", "/a/,/b/e", "\\,a,e", "/a/Ie x", "1,2{p;e x}", ":a e cat", "  e", "~3e", "+2e"),
]


@pytest.mark.parametrize("script", HARMLESS)
def test_a_script_that_only_edits_starts_nothing(script: str) -> None:
    assert not starts_something(script)


@pytest.mark.parametrize("script", STARTING)
def test_an_e_is_found_after_whatever_stands_before_it(script: str) -> None:
    assert starts_something(script)


@pytest.mark.parametrize("script", ["s/a/b", "k", "s", "/a", "s\\a\\b\\", "\\"])
def test_what_cannot_be_read_is_not_trusted(script: str) -> None:
    assert starts_something(script)


def test_what_some_versions_take_for_an_e_is_one() -> None:
    assert starts_something("s,[,],e,")
