"""The page of settings has exactly the variables that are read."""

import ast
import re

from tests.architecture.project import PACKAGE
from tests.docs.page import ROOT

PAGE = ROOT / "docs" / "reference" / "settings.md"


def variables_read() -> set[str]:
    """Every text in settings.py that looks like the name of a variable."""
    tree = ast.parse((PACKAGE / "settings.py").read_text("utf-8"))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {text for text in texts if re.fullmatch(r"[A-Z][A-Z0-9_]+", text)}


def variables_listed() -> set[str]:
    """The first cells of the first table."""
    table = PAGE.read_text("utf-8").partition("| variable |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `([A-Z0-9_]+)`", table, re.MULTILINE))


def test_every_variable_that_is_read_is_on_the_page_and_no_other() -> None:
    assert variables_listed() == variables_read()


def test_the_variables_are_found_in_the_source() -> None:
    assert {"SKILLS_ROOT", "OPENSKILL_DEBUG", "HOME"} <= variables_read()
