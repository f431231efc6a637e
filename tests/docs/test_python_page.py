"""The page about Python has every public member of what it describes."""

import re
from inspect import getmembers_static

import pytest

import openskills
from openskills.catalog.snapshot import CatalogChanges, CatalogSnapshot
from openskills.catalog.validate import ValidationResult
from openskills.errors import SkillError
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
DESCRIBED = (
    openskills.Catalog,
    openskills.Overview,
    openskills.Problem,
    openskills.Resource,
    openskills.Settings,
    openskills.Severity,
    openskills.Skill,
    openskills.SkillManifest,
    CatalogChanges,
    CatalogSnapshot,
    ValidationResult,
)
NOT_FOR_USERS = {"as_warning", "with_path"}
"""How problems are made."""


def words_of(page: str) -> set[str]:
    """What stands in code spans and headings."""
    spans = re.findall(r"`([^`\n]+)`", page) + re.findall(r"^#.*$", page, re.MULTILINE)
    return {word for span in spans for word in re.findall(r"\w+", span)}


def members_of(described: type) -> set[str]:
    """The public names that a class adds to what it is made from."""
    inherited = {name for base in described.__mro__[1:] for name in vars(base)}
    names = {name for name, _ in getmembers_static(described)} | set(getattr(described, "__annotations__", {}))
    return {name for name in names - inherited if not name.startswith("_")} - NOT_FOR_USERS


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda described: described.__name__)
def test_every_public_member_is_on_the_page(described: type) -> None:
    assert members_of(described)
    assert not members_of(described) - words_of(PAGE)


def test_every_error_on_the_page_has_its_code_and_reason() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+ \| `\w+`) \|", PAGE, re.MULTILINE))
    errors = [getattr(openskills, name) for name in openskills.__all__]
    kinds = [kind for kind in errors if isinstance(kind, type) and issubclass(kind, SkillError)]
    assert rows == {kind.__name__: f"{kind.code} | `{kind.reason}`" for kind in kinds}
