"""A root says which links may be followed."""

from pathlib import Path

from openskills.catalog.root import Root


def test_an_unconfined_root_follows_links_anywhere() -> None:
    assert Root(Path("/a"), "a").can_follow("/etc")


def test_a_confined_root_follows_links_below_its_bound_only() -> None:
    root = Root(Path("/p/skills"), "a", confine=Path("/p"))
    assert root.can_follow("/p/other/x")
    assert not root.can_follow("/p2/x")
