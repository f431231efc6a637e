"""The files of a skill; discovery itself is tested by the document's names."""

from typing import Any

from openskills.adapters.langchain.resources import ResourceMetadata, ResourceType, discover_resources, resource_summary
from openskills.adapters.langchain.steps import blocking
from tests.skill_writer import WriteSkill


def of(*kinds: ResourceType) -> list[ResourceMetadata]:
    return [ResourceMetadata(path="/x", type=kind, skill_name="pdf") for kind in kinds]


def test_a_summary_counts_kinds() -> None:
    assert resource_summary(of("script", "reference", "script")) == "1 reference, 2 scripts"
    assert resource_summary([]) == ""


def test_a_standard_directory_that_cannot_be_listed_hides_no_other_file(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("pdf")
    (skill / "notes.md").write_text("x", "utf-8")
    (skill / "scripts").symlink_to("nowhere")
    found = blocking(discover_resources("/skills/pdf", "pdf"), backend)
    assert [resource["path"] for resource in found] == ["/skills/pdf/notes.md"]
