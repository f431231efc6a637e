"""Answers that are not about a run."""

from pathlib import Path

from openskills.agent.rule_answers import lacking, nothing, signed
from openskills.agent.rule_arguments import Filled
from openskills.agent.rule_phrases import CHINESE, ENGLISH
from openskills.agent.rule_routing import Reason, Route
from openskills.catalog.snapshot import Snapshot
from tests.agent.rule_requests import catalog_in


def test_every_answer_says_that_no_language_model_gave_it_and_why_the_skill_was_chosen() -> None:
    assert signed("Hi.", ENGLISH, Route(None, Reason.NOTHING)) == (
        "Hi.\n\nThis is an answer of rules, not of a language model."
    )
    chosen = signed("Hi.", ENGLISH, Route("a", Reason.RULE, "log_transform"))
    assert chosen.endswith("stands for skills like it (log_transform).")
    assert signed("Hi.", ENGLISH, Route("a", Reason.NAMED), ran=True).endswith("Nobody has read the result.")
    assert "不是语言模型" in signed("好。", CHINESE, Route("a", Reason.SEARCH))


def test_the_nearest_skills_are_listed_or_those_that_there_are(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, one="First.", two="S" * 200).snapshot
    near = nothing(Route(None, Reason.NOTHING, near=("two",)), skills, ENGLISH)
    assert f"The nearest skills:\n\n- two: {'S' * 100}…\n- 1 more" in near
    assert "`$two`" in near
    some = nothing(Route(None, Reason.UNKNOWN, "tow"), skills, ENGLISH)
    assert some.startswith("There is no skill named tow, so nothing was done.\n\nThe skills here:\n\n- one: First.")
    assert nothing(Route(None, Reason.NOTHING), Snapshot(), CHINESE) == "这里没有任何技能，无法完成请求。"


def test_what_a_command_lacks_is_said() -> None:
    assert lacking(Filled("x", missing=("file",)), "a", ENGLISH).endswith("Attach one and ask again.")
    said = lacking(Filled("x <who>", missing=("numbers", "<who>")), "a", ENGLISH)
    assert "Write them" in said
    assert "<who> in `x <who>`" in said
