import pytest

from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem
from openskills.skillmd.rules import BODY_RULES, FOLDER_RULES, apply_rules
from openskills.skillmd.rules.rule import Subject


def said(
    description: str = "Merge PDF files. Use when asked.",
    body: str = "Do it.",
    files: dict[str, str] | None = None,
    extra: str = "",
) -> list[Problem]:
    """What the advice on wording and on files says."""
    parsed = parse(f"---\nname: pdf\ndescription: {description}\n{extra}---\n{body}\n")
    assert parsed.manifest
    sizes = {path: len(text) for path, text in files.items()} if files is not None else None
    return list(apply_rules(Subject(parsed, parsed.manifest, "pdf", sizes, files), (*BODY_RULES, *FOLDER_RULES)))


def rules(problems: list[Problem]) -> list[str]:
    return [problem.rule for problem in problems]


@pytest.mark.parametrize(
    "description",
    [
        "Merge PDF files. Use for forms.",
        "Merges PDF files whenever a user has several.",
        "Merges PDF files if the user wants one.",
        "合并多个 PDF 文件。当用户需要合并文件时使用。",
        "用于合并多个 PDF 文件并拆分它们的页面内容。",
        "PDFを結合します。ユーザーが依頼した場合に役立ちます。",
        "Fügt PDF-Dateien zusammen, wenn es mehrere sind.",
    ],
)
def test_a_description_that_says_when_is_good_in_many_languages(description: str) -> None:
    assert said(description) == []


def test_a_field_that_says_when_is_as_good_as_a_sentence() -> None:
    assert rules(said("Merges PDF files and splits them.", extra="when_to_use: For forms.\n")) == ["field-extension"]


@pytest.mark.parametrize(
    "description", ["A useful tool.", "Helps with documents", "This skill does various things.", "Utilities"]
)
def test_a_description_that_fits_anything_is_vague(description: str) -> None:
    assert "description-vague" in rules(said(description))


def test_a_dead_link_is_reported_with_the_file_that_was_probably_meant() -> None:
    problems = said(body="[a](Forms.md)", files={"references/forms.md": ""})
    assert [problem.message for problem in problems] == [
        "'Forms.md' does not exist; did you mean 'references/forms.md'?"
    ]


def test_a_placeholder_in_a_link_is_not_dead() -> None:
    assert said(body="[a]({{file}}) [b](${DIR}/x.md) `scripts/<name>.py` [c](...)", files={}) == []


def test_nobody_looked_at_the_files_so_nothing_is_said_of_them() -> None:
    assert said(body="[a](b.md)", extra="license: LICENSE.txt\n") == []


def test_a_chain_of_documents_is_reported_once_at_the_link_it_begins_with() -> None:
    files = {
        "references/a.md": "[b](b.md) [again](./b.md) [root](references/c.md) [out](../../x.md) [py](../scripts/d.py)",
        "references/b.md": "[a](a.md)",
        "references/c.md": "",
        "scripts/d.py": "",
    }
    problems = said(body="Text.\n[a](references/a.md)", files=files)
    assert [(problem.rule, problem.line, problem.column) for problem in problems] == [("reference-depth", 6, 5)] * 2
    assert "'references/b.md'" in problems[0].message
    assert "'references/c.md'" in problems[1].message


def test_a_document_that_the_skill_names_itself_is_one_level_deep() -> None:
    files = {"references/a.md": "[b](b.md) [home](../SKILL.md)", "references/b.md": "", "SKILL.md": ""}
    assert said(body="[a](references/a.md), then references/b.md", files=files) == []


@pytest.mark.parametrize(
    "text",
    [
        "MIT",
        "Apache-2.0",
        "MIT LICENSE",
        "Proprietary",
        "https://example.org/LICENSE.txt",
        "LICENSE.txt",
        "See the LICENSE file",
    ],
)
def test_a_license_that_names_no_file_or_an_existing_one_is_good(text: str) -> None:
    assert said(extra=f"license: {text}\n", files={"LICENSE.txt": "", "LICENSE": ""}) == []


def test_the_estimate_of_tokens_is_called_one() -> None:
    problems = said(body="表格" * 4_000)
    assert rules(problems) == ["body-tokens"]
    assert "estimated 6,000 tokens" in problems[0].message
