"""Where the right skill stands among the answers."""

from dataclasses import asdict

from charts import Chart, Line
from report import Target
from running_part import Part, Surroundings, plain_table
from selection_answers import Asked, ask_all
from selection_data import SEED, VERSION
from selection_figures import DEPTH, Found, found, recall
from selection_ways import BARE, BOTH, EMBEDDING, KEYWORDS, OURS

_ABOUT = """
{skills} skills in {families} families of similar skills (merging PDFs, filling in PDF forms, reading scanned ones …),
{chinese} of them described in Chinese, and {requests} requests, {share:.0f} % of them in Chinese. They were written
by hand (`benchmarks/selection/`, version {version}); requests with typos and within small talk were generated from
the others with the seed {seed}. "Paraphrased" requests contain hardly any word of the description; requests "with
words of another skill" do so in addition to their own. All parameters were chosen on the families of one half of the
set (training); the numbers are for the other half (test), {test} requests that need a skill.

"{ours}" is `Catalog.search`. "{keywords}" counts the distinct words that a request shares with name and description,
with each Chinese character as a word; ties are ordered by name. "{embedding}" is the cosine similarity of vectors of
wordllama 0.4.0, an offline embedding model; "{both}" adds half of that to our score. The glossary is a list of common
words with the same meaning in both languages. Its author also wrote the requests, so it shows the best case of such a
list; rely on "{bare}". The reciprocal rank is 0 for skills that are not among the first {depth}.
"""


async def measure(at: Surroundings) -> Part:
    """Recall of all ways, for all sorts of requests."""
    asked = await ask_all(at.scratch)
    figures = {
        way: {group: found(requests, answers) for group, requests in asked.groups.items()}
        for way, answers in asked.answers.items()
    }
    return Part(
        "Finding the right skill",
        _about(asked),
        _targets(figures),
        "\n\n".join([_overall(figures), _by_group(figures)]),
        missing=asked.missing,
        raw={way: {group: asdict(one) for group, one in groups.items()} for way, groups in figures.items()},
        charts=[_chart(asked)],
    )


def _targets(figures: dict[str, dict[str, Found]]) -> list[Target]:
    ours, bare, theirs = figures[OURS], figures[BARE], figures[KEYWORDS]
    same = "in the language of the skill"
    return [
        Target(
            "the right skill is first, relative to shared words", ours["all"].at_1 / theirs["all"].at_1, 1.3, digits=2
        ),
        Target("the same without the glossary", bare["all"].at_1 / theirs["all"].at_1, 1.15, digits=2),
        Target("the right skill is among the first 5", 100 * ours["all"].at_5, 78, unit="%"),
        Target("the right skill is among the first 20", 100 * ours["all"].at_20, 83, unit="%"),
        Target("direct requests: the right skill is first", 100 * ours["direct"].at_1, 92, unit="%"),
        Target(f"{same}, without the glossary: the right skill is first", 100 * bare[same].at_1, 75, unit="%"),
    ]


def _overall(figures: dict[str, dict[str, Found]]) -> str:
    head = ["", "first", "first 5", "first 20", "mean reciprocal rank"]
    rows = [[way, *map(_share, (one.at_1, one.at_5, one.at_20)), f"{one.reciprocal:.2f}"] for way, one in _all(figures)]
    return plain_table(head, rows)


def _by_group(figures: dict[str, dict[str, Found]]) -> str:
    """For each sort of requests, how often the right skill is first and among the first 5."""
    ways = [way for way, _ in _all(figures)]
    groups = [group for group in figures[OURS] if group != "all"]
    rows = [
        [f"{group} ({figures[OURS][group].requests})"]
        + [f"{_share(figures[way][group].at_1)}, {_share(figures[way][group].at_5)}" for way in ways]
        for group in groups
    ]
    return plain_table(["first, first 5; requests", *ways], rows)


def _chart(asked: Asked) -> Chart:
    requests = asked.groups["all"]
    lines = [
        Line(
            way,
            [(limit, 100 * recall(requests, answers, limit)) for limit in range(1, DEPTH + 1)],
            ours=way in (OURS, BARE),
        )
        for way, answers in asked.answers.items()
    ]
    return Chart(
        "recall", "How often the right skill is among the first results", "answers looked at", "% of requests", lines
    )


def _about(asked: Asked) -> str:
    labelled = asked.labelled
    return _ABOUT.format(
        skills=len(labelled.skills),
        families=len({skill.family for skill in labelled.skills}),
        chinese=sum(skill.language == "zh" for skill in labelled.skills),
        requests=len(labelled.requests),
        share=100 * sum(request.language == "zh" for request in labelled.requests) / len(labelled.requests),
        test=len(asked.groups["all"]),
        version=VERSION,
        seed=SEED,
        ours=OURS,
        bare=BARE,
        keywords=KEYWORDS,
        embedding=EMBEDDING,
        both=BOTH,
        depth=DEPTH,
    )


def _all(figures: dict[str, dict[str, Found]]) -> list[tuple[str, Found]]:
    return [(way, groups["all"]) for way, groups in figures.items()]


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"
