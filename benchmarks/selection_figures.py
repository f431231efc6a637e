"""How well a way of finding skills did: where the right one stands, and what is activated. Imports no other file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

DEPTH = 20
"""How far down an answer is looked at."""

Answer: TypeAlias = Sequence[tuple[str, float]]
"""Names with their scores, best first."""

Answers: TypeAlias = Mapping[str, Answer]
"""The answer to each text."""


class Labelled(Protocol):
    """A request, and the skill that is right for it; None when no skill is."""

    @property
    def text(self) -> str:
        """What is asked."""
        ...

    @property
    def skill(self) -> str | None:
        """What is right."""
        ...


@dataclass(frozen=True)
class Found:
    """Of requests that need a skill, the shares whose skill is among the first N, and the mean reciprocal rank."""

    requests: int
    at_1: float
    at_5: float
    at_20: float
    reciprocal: float


@dataclass(frozen=True)
class Decided:
    """What comes of activating the best skill when its score reaches a threshold.

    `right`, `wrong` and `missed` are shares of the requests that need a skill; `false` of those that need none.
    """

    threshold: float
    right: float
    wrong: float
    missed: float
    false: float

    @property
    def good(self) -> float:
        """The share of right decisions, requests with and without a skill counting the same."""
        return (self.right + 1 - self.false) / 2


def found(requests: Sequence[Labelled], answers: Answers) -> Found:
    """The figures for those of the requests that need a skill."""
    ranks = [_rank(request, answers[request.text]) for request in requests if request.skill]
    within = {limit: recall(requests, answers, limit) for limit in (1, 5, DEPTH)}
    reciprocal = sum(1 / rank for rank in ranks if rank) / (len(ranks) or 1)
    return Found(len(ranks), within[1], within[5], within[DEPTH], reciprocal)


def recall(requests: Sequence[Labelled], answers: Answers, limit: int) -> float:
    """The share of the requests that need a skill for which it is among the first so many."""
    ranks = [_rank(request, answers[request.text]) for request in requests if request.skill]
    return sum(0 < rank <= limit for rank in ranks) / (len(ranks) or 1)


def decided(requests: Sequence[Labelled], answers: Answers, threshold: float) -> Decided:
    """What activating from this threshold on leads to."""
    chosen = {request.text: _chosen(answers[request.text], threshold) for request in requests}
    needy = [request for request in requests if request.skill]
    needless = [request for request in requests if not request.skill]
    right = sum(chosen[request.text] == request.skill for request in needy)
    missed = sum(chosen[request.text] is None for request in needy)
    count = len(needy) or 1
    return Decided(
        threshold,
        right / count,
        (len(needy) - right - missed) / count,
        missed / count,
        sum(chosen[request.text] is not None for request in needless) / (len(needless) or 1),
    )


def best_threshold(requests: Sequence[Labelled], answers: Answers) -> float:
    """The threshold with the most right decisions; of equal ones the lowest, which misses the least."""
    scores = sorted({answers[request.text][0][1] for request in requests if answers[request.text]})
    return max(scores, key=lambda score: (decided(requests, answers, score).good, -score), default=0.0)


def _chosen(answer: Answer, threshold: float) -> str | None:
    return answer[0][0] if answer and answer[0][1] >= threshold else None


def _rank(request: Labelled, answer: Answer) -> int:
    """Where the right skill stands, from 1; 0 for nowhere."""
    return next((place for place, (name, _) in enumerate(answer[:DEPTH], 1) if name == request.skill), 0)
