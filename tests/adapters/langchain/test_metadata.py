"""What a SKILL.md says about itself, for upstream's state."""

from typing import Any

import pytest
from deepagents.middleware import skills as upstream

from openskills.adapters.langchain.metadata import extension, loaded_skills, metadata_of
from tests.adapters.langchain.entries import entry

PLAIN = "---\nname: pdf\ndescription: Fills forms.\n---\n\nBody\n"


def read(text: str, directory: str = "pdf", **options: Any) -> Any:
    return metadata_of(text.encode(), f"/skills/{directory}/SKILL.md", directory, **options)


@pytest.mark.parametrize(
    "front",
    [
        "license: MIT\n",
        "compatibility: Python 3.12, poppler\n",
        "metadata:\n  author: me\n  version: '1.0'\n",
        "allowed-tools: search fetch\n",
        "allowed-tools: search, fetch\n",
        "allowed-tools:\n  - search\n  - fetch\n",
        "license: ''\nallowed-tools:\n",
    ],
)
def test_it_is_what_upstream_reads(front: str) -> None:
    text = f"---\nname: pdf\ndescription: Fills forms.\n{front}---\n\nBody\n"
    theirs: Any = upstream
    assert read(text) == theirs._parse_skill_metadata(text, "/skills/pdf/SKILL.md", "pdf")


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("Fills forms.", "Fills forms: all of them."),
        "---\nname: pdf\ndescription: Fills forms.\n---",
    ],
)
def test_what_clients_stumble_over_is_read(text: str) -> None:
    found = read(text)
    assert found["name"] == "pdf"
    assert found["description"].startswith("Fills forms")


@pytest.mark.parametrize(
    "content",
    [
        b"no front matter",
        b"---\nname: pdf\n---\n",
        b"---\ndescription: x\n---\n",
        b"---\nname: \xff\n---\n",
        b"---\nname: pdf\ndescription: x\n---\n" + b"x" * (10 * 1024 * 1024),
        b"",
    ],
)
def test_what_is_no_skill_is_skipped_with_a_warning(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert metadata_of(content, "/skills/pdf/SKILL.md", "pdf") is None
    assert "/skills/pdf/SKILL.md" in caplog.text


@pytest.mark.parametrize("name", ["PDF", "pdf-", "p--df", "x" * 65, "other"])
def test_a_name_against_the_specification_is_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    directory = name if name != "other" else "pdf"
    assert read(PLAIN.replace("name: pdf", f"name: {name}"), directory)["name"] == name
    assert "does not follow the specification" in caplog.text


def test_a_good_name_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    read(PLAIN)
    assert caplog.text == ""


def test_long_texts_are_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    found = read(f"---\nname: pdf\ndescription: {'d' * 1025}\ncompatibility: {'c' * 501}\n---\n")
    assert (len(found["description"]), len(found["compatibility"])) == (1024, 500)
    assert caplog.text.count("characters") == 2


def test_fields_beyond_the_specification_are_there_only_when_asked_for() -> None:
    text = PLAIN.replace("---\n\n", "model: big\ndisable-model-invocation: true\n---\n\n")
    assert "extensions" not in read(text)
    found = read(text, extended=True)
    assert found["extensions"] == {"model": "big", "disable_model_invocation": True}
    assert extension(found, "model") == "big"
    assert extension(found, "context") is None
    assert extension(read(text), "model") is None
    assert "extensions" not in read(PLAIN)
    assert read(PLAIN, extended=True).get("extensions") == {}, "there is nothing, and somebody looked"


def test_loaded_skills_come_in_the_order_of_loading() -> None:
    skills = [entry("a"), entry("b"), entry("c")]
    assert [skill["name"] for skill in loaded_skills(skills, ["c", "gone", "a"])] == ["c", "a"]


def test_a_name_is_one_line() -> None:
    assert read(PLAIN.replace("name: pdf", 'name: "a\\n- **b**"'))["name"] == "a - **b**"
