"""What every way answers to the whole labelled set, asked once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from running_part import NotMeasured
from selection_data import LabelledSet, Request, load
from selection_figures import Answers
from selection_ways import (
    BARE,
    BOTH,
    EMBEDDING,
    KEYWORDS,
    OURS,
    embedding,
    ours,
    shared_words,
    together,
    without_glossary,
)


@dataclass(frozen=True)
class Asked:
    """The set, the answers of each way, and why some of the ways have none."""

    labelled: LabelledSet
    answers: Mapping[str, Answers]
    missing: Sequence[str]

    @property
    def groups(self) -> dict[str, list[Request]]:
        """The requests of the test half that need a skill: all, by kind, by language, by whether it is the skill's."""
        needy = [request for request in self.labelled.of("test") if request.skill]
        written = {skill.name: skill.language for skill in self.labelled.skills}
        same = {request.text: request.language == written[request.skill or ""] for request in needy}
        kinds = list(dict.fromkeys(request.kind for request in needy))
        return {
            "all": needy,
            **{KINDS[kind]: [request for request in needy if request.kind == kind] for kind in kinds},
            **{LANGUAGES[one]: [request for request in needy if request.language == one] for one in LANGUAGES},
            "in the language of the skill": [request for request in needy if same[request.text]],
            "in the other language": [request for request in needy if not same[request.text]],
        }


KINDS = {
    "direct": "direct",
    "paraphrase": "paraphrased",
    "near": "with words of another skill",
    "typo": "with typos",
    "noise": "within small talk",
}
LANGUAGES = {"en": "in English", "zh": "in Chinese"}


async def ask_all(scratch: Path) -> Asked:
    """Every way, as far as it can be had."""
    labelled = load()
    texts = [request.text for request in labelled.requests]
    answers: dict[str, Answers] = {
        OURS: await ours(labelled.skills, scratch / "skills").answers(texts),
        BARE: await without_glossary(labelled.skills).answers(texts),
        KEYWORDS: await shared_words(labelled.skills).answers(texts),
    }
    missing: list[str] = []
    try:
        async with embedding(labelled.skills) as finder:
            answers[EMBEDDING] = await finder.answers(texts)
            answers[BOTH] = together(answers[OURS], answers[EMBEDDING])
    except NotMeasured as reason:
        missing.append(str(reason))
    return Asked(labelled, answers, missing)
