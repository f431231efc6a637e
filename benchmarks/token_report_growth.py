"""What a request costs with more and more skills, and from how many on disclosure is the cheaper way."""

from collections.abc import Mapping

import token_report_library
from charts import Chart, Line
from report import Target
from running_part import Part, Surroundings, plain_table
from token_report_made import NAMES, report_over

from openskills.runtime.token_report import DisclosureMode, TokenReport

SIZES = (1, 3, 10, 30, 100, 300, 1000)

_ABOUT = """
The same tasks over libraries of different sizes. With a few small skills it is cheaper to put everything into the
prompt, because the definitions of our tools are larger. The list of skills has at most 8,000 tokens; where it cannot
describe all skills, the model searches before it loads a skill, and this additional request is included.
"""


async def measure(at: Surroundings) -> Part:
    """A report for each size; nothing here depends on time."""
    sizes = SIZES if at.extent.few > 4 else SIZES[: 3 if at.extent.few == 1 else 5]
    found: dict[int, TokenReport] = {}
    for size in sizes:
        at.say(f"playing tasks over {size:,} skills")
        token_report_library.build(at.scratch / f"skills-{size}", size)
        found[size] = await report_over(at.scratch / f"skills-{size}", at.scratch)
    most = max(found)
    small, large = (found[size].cost(DisclosureMode.PROGRESSIVE).per_request for size in (min(found), most))
    return Part(
        "The size of the library",
        _ABOUT,
        [
            Target(
                f"growth of a request with disclosure, from {min(found)} to {most:,} skills",
                large / small,
                16,
                at_least=False,
            )
        ],
        _table(found),
        raw={str(size): {way: one.cost(way).per_request for way in DisclosureMode} for size, one in found.items()},
        charts=[_chart(found)],
    )


def _table(found: Mapping[int, TokenReport]) -> str:
    rows = [
        [
            f"{size:,}",
            *(f"{report.cost(way).per_request:,.0f}" for way in DisclosureMode),
            *(f"{report.savings(way):.1%}" for way in (DisclosureMode.BODIES, DisclosureMode.EVERYTHING)),
        ]
        for size, report in found.items()
    ]
    return plain_table(["tokens per request, skills", *NAMES.values(), "saved of bodies", "saved of both"], rows)


def _chart(found: Mapping[int, TokenReport]) -> Chart:
    lines = [
        Line(
            NAMES[way],
            [(size, report.cost(way).per_request) for size, report in found.items()],
            ours=way is DisclosureMode.PROGRESSIVE,
        )
        for way in DisclosureMode
    ]
    return Chart("skills", "Tokens of a request", "skills of the library", "tokens", lines, log_x=True, log_y=True)
