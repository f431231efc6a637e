"""Which paths a pattern means."""

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument, SkillError
from openskills.skillkit.glob import Glob


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.md", "a.md", True),
        ("*.md", "x/y/a.md", True),
        ("*.md", "a.mdx", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "x/y/a.md", True),
        ("x/*.md", "x/a.md", True),
        ("x/*.md", "x/y/a.md", False),
        ("x/**/a.md", "x/a.md", True),
        ("x/**/a.md", "x/y/z/a.md", True),
        ("x/**", "x/y/z", True),
        ("x/**", "y/x", False),
        ("**", "x/y", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("?", "中", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[]]", "]", True),
        ("[a-]", "-", True),
        ("[ab", "[ab", True),
        ("{a,b}.{md,txt}", "b.txt", True),
        ("{a,b}.md", "c.md", False),
        ("{a,{b,c}}.md", "c.md", True),
        ("{a", "{a", True),
        ("./x//*.md", "x/a.md", True),
        ("a.b", "axb", False),
        ("A.md", "a.md", False),
    ],
)
def test_a_pattern_fits(pattern: str, path: str, fits: bool) -> None:
    assert Glob(pattern).fits(path) is fits


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("", InvalidArgument),
        ("  ", InvalidArgument),
        ("a\0b", InvalidArgument),
        ("x" * 1001, InvalidArgument),
        ("{a,b}" * 10, InvalidArgument),
        ("{" * 300 + "a,b" + "}" * 300, InvalidArgument),
        ("/etc/*", ForbiddenPath),
        ("{/etc,x}/*", ForbiddenPath),
        ("x/../y", ForbiddenPath),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(pattern: str, kind: type[SkillError]) -> None:
    with pytest.raises(kind, match=r"^glob: "):
        Glob(pattern)


def test_no_pattern_takes_long() -> None:
    assert not Glob("*a" * 100 + "b").fits("a" * 255)
    assert not Glob("**/a/" * 100 + "b").fits("/".join("a" * 200))
