"""How to read on."""

import json

from openskills.tools.read_on import read_on


def test_the_sentence_can_be_called_as_it_is() -> None:
    sentence = read_on(["skill_load", "skill_select_docs"])("pdf", "a b.md", 12, 1)
    wanted = json.loads(sentence.partition(" with ")[2])
    assert wanted == {"skill": "pdf", "docs": ["a b.md#L12"], "mode": "add"}
    assert "SKILL.md#L1C400" in read_on(["skill_select_docs"])("pdf", "SKILL.md", 1, 400)


def test_without_selecting_a_file_is_read_and_without_both_nothing_is_promised() -> None:
    assert '"start_line": 12' in read_on(["read_file"])("pdf", "SKILL.md", 12, 1)
    assert "cannot be read" in read_on([])("pdf", "SKILL.md", 12, 1)
