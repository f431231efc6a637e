from pathlib import Path

from openskills.bench.library import read_library
from tests.bench.shelves import DOC, contents, on_disk


def test_bodies_and_documents_are_read_whole(tmp_path: Path) -> None:
    catalog, _ = on_disk(tmp_path, contents("forms", "references/a.md"), contents("alpha"))
    first, second = read_library(catalog.skills).skills
    assert (first.name, second.name) == ("alpha", "forms")
    assert second.docs == {"references/a.md": DOC}
    assert second.body.startswith("Do it step by step.")


def test_what_cannot_be_read_is_named_and_hides_nothing_else(tmp_path: Path) -> None:
    catalog, _ = on_disk(tmp_path, contents("forms", "good.md", "bad.md"), contents("gone"))
    (tmp_path / "skills" / "forms" / "bad.md").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "skills" / "gone" / "SKILL.md").unlink()
    library = read_library(catalog.skills)
    assert library.unread == ("forms/bad.md", "gone")
    assert [(skill.name, list(skill.docs)) for skill in library.skills] == [("forms", ["good.md"])]
