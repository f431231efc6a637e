"""The model that a skill asks for."""

from typing import Any

import pytest

from openskills.adapters.langchain.model_choice import chosen_model
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import Scripted

BIG, SMALL = Scripted(script=[]), Scripted(script=[])
MODELS = {"big": BIG, "small": SMALL}


def skill(name: str, model: Any = None) -> Any:
    return entry(name, extensions={"model": model} if model else {})


def test_the_skill_that_was_loaded_last_decides() -> None:
    assert chosen_model(MODELS, [skill("a", "big"), skill("b", "small"), skill("c")]) is SMALL
    assert chosen_model(MODELS, [skill("a", "big"), skill("c")]) is BIG


@pytest.mark.parametrize("model", ["inherit", "default", None])
def test_without_a_wish_it_is_the_agents_own(model: str | None) -> None:
    assert chosen_model(MODELS, [skill("a", model)]) is None
    assert chosen_model(MODELS, []) is None


def test_a_name_that_means_nothing_leaves_the_next_wish() -> None:
    assert chosen_model(MODELS, [skill("a", "big"), skill("b", "unknown")]) is BIG


def test_a_function_may_find_the_model() -> None:
    assert chosen_model(lambda name: BIG if name == "any" else None, [skill("a", "any")]) is BIG
