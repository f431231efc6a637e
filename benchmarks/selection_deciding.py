"""Whether a skill is activated at all, and whether it is the right one."""

from collections.abc import Mapping
from dataclasses import asdict

from report import Target
from running_part import Part, Surroundings, plain_table
from selection_answers import ask_all
from selection_data import NEEDLESS_KINDS, Request
from selection_figures import Answers, Decided, best_threshold, decided
from selection_ways import KEYWORDS, OURS

FIT = 0.5
SHIPPED = f"{OURS}, fit of {FIT} as documented"

_ABOUT = f"""
The best skill is activated if its score reaches a threshold, otherwise none is. The threshold of each method is the
one that decides best on the training half, with equal weight for requests with and without a skill; the table is
for the test half: {{needy}} requests that need a skill and {{needless}} that do not, which are small talk, general
knowledge, and requests that only share words with a skill ("the film has a terrible plot"). "{SHIPPED}" is what
users get: the scale of `hit.fit` was calibrated on the training half, and is the same for every query and catalog.
A false activation is a skill for a request that needs none.
"""


async def measure(at: Surroundings) -> Part:
    """The decisions of all ways."""
    asked = await ask_all(at.scratch)
    dev, test = (asked.labelled.of(half) for half in ("dev", "test"))
    ways: dict[str, tuple[Answers, float]] = {SHIPPED: (asked.answers[OURS], FIT)}
    ways |= {way: (answers, best_threshold(dev, answers)) for way, answers in asked.answers.items()}
    overall = {way: decided(test, answers, threshold) for way, (answers, threshold) in ways.items()}
    false = {way: _false(test, *one) for way, one in ways.items()}
    needy = sum(request.skill is not None for request in test)
    return Part(
        "Deciding whether to activate a skill",
        _ABOUT.format(needy=needy, needless=len(test) - needy),
        _targets(overall),
        _table(overall, false),
        missing=asked.missing,
        raw={way: {**asdict(one), "false by kind": false[way]} for way, one in overall.items()},
    )


def _targets(overall: Mapping[str, Decided]) -> list[Target]:
    shipped = overall[SHIPPED]
    more = shipped.right / overall[KEYWORDS].right
    return [
        Target(f"fit of {FIT}: false activations", 100 * shipped.false, 10, at_least=False, unit="%"),
        Target(f"fit of {FIT}: a wrong skill is activated", 100 * shipped.wrong, 7, at_least=False, unit="%"),
        Target(f"fit of {FIT}: right activations, relative to shared words", more, 1.2, digits=2),
    ]


def _table(overall: Mapping[str, Decided], false: Mapping[str, Mapping[str, float]]) -> str:
    head = [
        "",
        "threshold",
        "right skill",
        "wrong skill",
        "none, although needed",
        "false activations",
        *_SORTS.values(),
    ]
    return plain_table(
        head,
        [
            [way, f"{one.threshold:.2f}", *map(_share, (one.right, one.wrong, one.missed, one.false))]
            + [_share(false[way][kind]) for kind in _SORTS]
            for way, one in overall.items()
        ],
    )


_SORTS = {"chat": "of small talk", "knowledge": "of general knowledge", "lookalike": "of shared words"}


def _false(requests: list[Request], answers: Answers, threshold: float) -> dict[str, float]:
    sorts = {kind: [request for request in requests if request.kind == kind] for kind in NEEDLESS_KINDS}
    return {kind: decided(some, answers, threshold).false for kind, some in sorts.items()}


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"
