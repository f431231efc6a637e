"""The labelled set is sound, its variations can be made again, and every way of finding skills is measured on it."""

import subprocess
import sys
from collections import Counter

import pytest

from benchmarks.selection_data import (
    HALVES,
    HERE,
    NEEDLESS_KINDS,
    VARIED_KINDS,
    WRITTEN_KINDS,
    LabelledSet,
    by_family,
    load,
    read_rows,
)
from benchmarks.selection_figures import best_threshold, decided, found
from openskills.catalog.vocabulary import STOP_WORDS, fold, split_pairs, split_text, stem
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import parse
from tests.benchmarks.programs import ROOT, measured, row_of


@pytest.fixture(scope="module")
def labelled() -> LabelledSet:
    return load()


def test_the_set_is_as_large_as_it_has_to_be(labelled: LabelledSet) -> None:
    assert len(labelled.skills) >= 120
    assert len(labelled.requests) >= 400
    needless = [request for request in labelled.requests if request.skill is None]
    assert len(needless) >= 60
    kinds = Counter(request.kind for request in labelled.requests)
    assert set(kinds) == {*WRITTEN_KINDS, *VARIED_KINDS, *NEEDLESS_KINDS}
    assert min(kinds.values()) >= 20


def test_nothing_is_there_twice(labelled: LabelledSet) -> None:
    assert len({skill.name for skill in labelled.skills}) == len(labelled.skills)
    assert len({skill.description for skill in labelled.skills}) == len(labelled.skills)
    texts = Counter(request.text for request in labelled.requests)
    assert [text for text, count in texts.items() if count > 1] == []


def test_every_label_is_a_skill_and_every_skill_is_asked_for_more_than_once(labelled: LabelledSet) -> None:
    names = {skill.name for skill in labelled.skills}
    asked = Counter(request.skill for request in labelled.requests if request.skill)
    assert set(asked) == names
    assert min(asked.values()) >= 2
    assert {request.beside for request in labelled.requests if request.beside} <= names
    assert all(request.beside not in (None, request.skill) for request in labelled.requests if request.kind == "near")
    assert all((request.skill is None) == (request.kind in NEEDLESS_KINDS) for request in labelled.requests)


def test_every_skill_is_valid(labelled: LabelledSet) -> None:
    for skill in labelled.skills:
        parsed = parse(f"---\nname: {skill.name}\ndescription: {skill.description!r}\n---\n\nDo it.\n")
        assert isinstance(parsed.manifest, SkillManifest), skill
        assert parsed.manifest.name == skill.name


def test_both_languages_have_a_fair_share_of_every_kind(labelled: LabelledSet) -> None:
    languages = Counter(request.language for request in labelled.requests)
    assert languages["zh"] >= 0.4 * len(labelled.requests)
    kinds = Counter((request.kind, request.language) for request in labelled.requests)
    assert all(kinds[kind, "zh"] >= 0.3 * (kinds[kind, "zh"] + kinds[kind, "en"]) for kind, _ in kinds)
    assert sum(skill.language == "zh" for skill in labelled.skills) >= 0.25 * len(labelled.skills)


def test_skills_stand_in_families_of_near_neighbours_that_are_not_torn_apart(labelled: LabelledSet) -> None:
    families = by_family(labelled.skills)
    assert min(map(len, families.values())) >= 3
    for names in families.values():
        assert len({request.half for request in labelled.requests if request.skill in names}) == 1


def test_the_halves_are_alike(labelled: LabelledSet) -> None:
    halves = Counter((request.half, request.kind) for request in labelled.requests)
    for kind in {request.kind for request in labelled.requests}:
        dev, test = (halves[half, kind] for half in HALVES)
        assert abs(dev - test) <= 0.25 * (dev + test), kind


def test_talk_around_requests_is_not_shared_by_the_halves(labelled: LabelledSet) -> None:
    plain = {row["text"]: row["of"] for row in read_rows(HERE / "varied.jsonl")}
    around = {half: set[str]() for half in HALVES}
    for request in labelled.requests:
        if request.kind == "noise":
            left = request.text.replace(plain[request.text], "").replace("。", ".").split(".")
            around[request.half].update(piece.strip() for piece in left if len(piece.strip()) > 3)
    assert all(around.values())
    assert not around["dev"] & around["test"]


def test_other_words_are_other_words(labelled: LabelledSet) -> None:
    about = {skill.name: words_of(f"{skill.name} {skill.description}") for skill in labelled.skills}

    def shared(kind: str) -> float:
        asked = [request for request in labelled.requests if request.kind == kind and request.skill]
        counts = [len(words_of(request.text) & about[request.skill or ""]) for request in asked]
        return sum(counts) / len(counts)

    assert shared("paraphrase") < 1 < 2 < shared("direct")


def words_of(text: str) -> set[str]:
    words, runs = split_text(fold(text))
    found = {stem(word) for word in words if word not in STOP_WORDS}
    return found | {pair for run in runs for pair in split_pairs(run)[:-1] if pair not in STOP_WORDS}


def test_the_variations_come_from_their_seed() -> None:
    script = ROOT / "benchmarks" / "selection_variations.py"
    done = subprocess.run([sys.executable, str(script), "--print"], capture_output=True, check=True)
    assert done.stdout == (HERE / "varied.jsonl").read_bytes()


class Asked:
    def __init__(self, text: str, skill: str | None) -> None:
        self.text = text
        self.skill = skill


REQUESTS = [Asked("one", "a"), Asked("two", "b"), Asked("three", "c"), Asked("four", "d"), Asked("none", None)]
ANSWERS = {
    "one": [("a", 9.0), ("b", 1.0)],
    "two": [("a", 5.0), ("b", 4.0)],
    "three": [("c", 2.0)],
    "four": [],
    "none": [("a", 3.0)],
}


def test_recall_and_ranks_are_counted_over_requests_that_need_a_skill() -> None:
    figures = found(REQUESTS, ANSWERS)
    assert (figures.requests, figures.at_1, figures.at_5, figures.at_20) == (4, 0.5, 0.75, 0.75)
    assert figures.reciprocal == (1 + 0.5 + 1) / 4


def test_decisions_are_right_wrong_missed_or_false() -> None:
    low, high = decided(REQUESTS, ANSWERS, 2.0), decided(REQUESTS, ANSWERS, 4.0)
    assert (low.right, low.wrong, low.missed, low.false) == (0.5, 0.25, 0.25, 1.0)
    assert (high.right, high.wrong, high.missed, high.false) == (0.25, 0.25, 0.5, 0.0)


def test_the_threshold_is_the_lowest_of_those_that_decide_best() -> None:
    assert best_threshold(REQUESTS, ANSWERS) == 5.0
    assert best_threshold(REQUESTS, dict.fromkeys(ANSWERS, ())) == 0.0


@pytest.mark.slow
def test_every_way_is_measured_for_every_sort_of_request() -> None:
    printed = measured("selection", "--only", "finding,deciding")
    for way in ("OpenSkill", "shared words"):
        groups = printed["finding"]["numbers"][way]
        assert {"all", "direct", "paraphrased", "in English", "in Chinese", "in the other language"} <= set(groups)
        assert 0 < groups["all"]["at_1"] <= groups["all"]["at_5"] <= groups["all"]["at_20"] <= 1
        assert set(printed["deciding"]["numbers"][way]["false by kind"]) == set(NEEDLESS_KINDS)
    missing = printed["finding"]["missing"]
    assert ("wordllama" in printed["finding"]["numbers"]) != any("wordllama" in why for why in missing)


@pytest.mark.slow
def test_the_search_keeps_what_the_page_promises_about_finding() -> None:
    """Unlike times these figures are the same on every machine."""
    printed = measured("selection", "--only", "finding,deciding")
    assert [row for row in printed["promises"] if row.endswith("| NO |")] == []


@pytest.mark.slow
def test_queries_are_timed_with_two_numbers_of_skills() -> None:
    printed = measured("selection", "--only", "speed")
    assert set(printed["speed"]["numbers"]) == {"24", "48"}
    assert row_of(printed, "24 skills: a query, faster than shared words")
