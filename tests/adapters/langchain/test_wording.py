"""Sentences for the model, as the design document has them."""

from openskills.adapters.langchain import wording


def test_of_many_skills_the_most_similar_are_named() -> None:
    names = [f"skill-{number}" for number in range(60)]
    assert wording.unknown("skil-7", names[:50]).endswith("skill-48, skill-49")
    text = wording.unknown("skil-7", names)
    assert "Available skills: skill-7, " in text
    assert text.endswith("and 50 more in the skills list")
    assert "skill-0, skill-1" in wording.unknown("????????", names)


def test_sentences_name_what_to_do() -> None:
    assert wording.limit_reached("c", ["a", "b"], 2) == (
        "Error: Cannot load skill 'c'. Maximum number of simultaneously loaded skills reached (2). "
        'Currently loaded: a, b. Use `unload_skill("skill-name")` to unload a skill you no longer need, '
        "then retry loading."
    )
    assert wording.unloaded("a", ["b"], 3).startswith(
        "Skill 'a' has been unloaded. Currently loaded: 1/3 (2 slot(s) available). Note: "
    )
    assert "[Loaded]" not in wording.unloaded("a", [], 3, marked=False)
    assert wording.not_loaded("a", ["b"]).endswith("Currently loaded skills: b.")
    assert wording.state_line([], 3) == "Loaded skills: (none) (0/3)."
    assert "a, b" in wording.forgotten(["a", "b"])
    assert wording.manual_only("a").startswith("Error: Skill 'a'")


def test_a_name_that_means_nothing_is_not_repeated_whole() -> None:
    name = "z" * 200_000
    for text in (wording.unknown(name, ["a"]), wording.unknown(name, ["a"] * 60), wording.not_loaded(name, ["a"])):
        assert len(text) < 400
        assert "z" * 100 in text


def test_sources_that_could_not_be_read_are_named_when_a_skill_is_missing() -> None:
    assert wording.unknown("a", [], ["no '/x/'"]).endswith(". Some skills may be missing: no '/x/'")
