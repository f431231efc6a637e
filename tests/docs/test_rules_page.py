"""The page of rules is made from the table, and what it says of fixes is true."""

import ast
import inspect
from types import ModuleType

import pytest

from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem
from openskills.skillmd.rules import ALL_RULES, lint_skill, portability, specification, style
from openskills.skillmd.rules import specification as naming
from openskills.skillmd.rules.rule import READING_RULES
from scripts import rules_page
from tests.architecture.project import ROOT, package_sources

# A SKILL.md in the folder `pdf-tools` that breaks a rule in a way that can be mended.
MENDABLE = {
    "text-bom": "\ufeff---\nname: pdf-tools\ndescription: x\n---\n",
    "frontmatter-first-line": "\n---\nname: pdf-tools\ndescription: x\n---\n",
    "yaml-surrogates": '---\nname: pdf-tools\ndescription: x\nmetadata: {"a": "\\ud83d\\udcc4"}\n---\n',
    "yaml-tab": "---\nname: pdf-tools\ndescription: x\nmetadata:\n\ta: b\n---\n",
    "yaml-unquoted": "---\nname: pdf-tools\ndescription: one: two\n---\n",
    "name-required": "---\ndescription: x\n---\n",
    "name-uppercase": "---\nname: PDF-Tools\ndescription: x\n---\n",
    "name-characters": "---\nname: pdf_tools\ndescription: x\n---\n",
    "name-folder": "---\nname: pdf_tools\ndescription: x\n---\n",
    "metadata-value-type": "---\nname: pdf-tools\ndescription: x\nmetadata:\n  version: 1.0\n---\n",
    "allowed-tools-list": "---\nname: pdf-tools\ndescription: x\nallowed-tools: [Read, Write]\n---\n",
    "value-not-text": "---\nname: pdf-tools\ndescription: 2026-01-01\n---\n",
}


def test_the_page_is_what_the_table_says() -> None:
    text = rules_page.PAGE.read_text("utf-8")
    assert text == rules_page.page(), "run: python scripts/rules_page.py"


def test_every_rule_that_is_found_while_reading_has_its_meaning() -> None:
    assert rules_page.MEANINGS.keys() == {rule.id for rule in READING_RULES if rule.check is None}
    assert all((rule.check.__doc__ or "").strip() for rule in ALL_RULES if rule.check)


def test_every_id_that_the_package_reports_is_on_the_page() -> None:
    known = {rule.id for rule in ALL_RULES} | {row[0] for row in rules_page.CATALOG}
    assert not reported_ids() - known
    assert not {row[0] for row in rules_page.CATALOG} - reported_ids()


def test_every_id_that_the_host_reports_is_on_the_page_of_manifests() -> None:
    page = (ROOT / "docs" / "reference" / "manifests.md").read_text("utf-8")
    assert reported_ids("host/")
    assert [found for found in sorted(reported_ids("host/")) if f"`{found}`" not in page] == []


def test_every_fix_on_the_page_has_an_example() -> None:
    assert MENDABLE.keys() == rules_page.FIXES.keys()


@pytest.mark.parametrize("rule", MENDABLE)
def test_what_the_page_calls_mendable_can_be_mended(rule: str) -> None:
    problems: list[Problem] = [
        found for found in lint_skill(parse(MENDABLE[rule]), "pdf-tools", {}) if found.rule == rule
    ]
    assert problems
    assert problems[0].fix
    assert problems[0].fix.edits


def test_no_rule_mends_without_a_word_on_the_page() -> None:
    mending = {name for module in (style, naming, portability, specification) for name in functions_that_mend(module)}
    checks = {rule.id: rule.check.__name__ for rule in ALL_RULES if rule.check}
    assert {rule for rule, check in checks.items() if check in mending} == rules_page.FIXES.keys() & checks.keys()


def functions_that_mend(module: ModuleType) -> set[str]:
    """The functions of a module that make a `Fix`, or call one that does."""
    tree = ast.parse(inspect.getsource(module))
    uses = {
        node.name: {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    makers = {name for name, used in uses.items() if "Fix" in used}
    return makers | {name for name, used in uses.items() if used & makers}


def reported_ids(below: str = "") -> set[str]:
    """The first argument of every `Problem("...")` in a part of the package; all of it is that without the host."""
    return {
        node.args[0].value
        for source in package_sources()
        if (source.path.startswith(below) if below else not source.path.startswith("host/"))
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem"
        if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    }
