"""The section of the page that says how quickly skills are found."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from report import Bar, Target, promises, time_text, write_picture, write_section

_SECTION = """## Finding skills

`benchmarks/discovery.py --write`, {count:,} synthetic skills with the sizes of real ones (`benchmarks/corpus.py`):
front matter of 300 bytes in the median, bodies of 1.6 KB in the median and up to 73 KB. All are valid, so that every
library does all of its work. Each measurement is a process of its own, rounds are interleaved, and the best of the
rounds counts for everybody. The clock starts after the imports; the first discovery neither finds nor writes an
index. In the row on JSON-style metadata two skills of five have nested metadata as one big project writes it;
skills-ref refuses such files unread.

{promises}

![Time to find {count:,} skills](benchmarks/discovery.svg)

| | time | against OpenSkill's first discovery |
|---|---:|---:|
{bars}

Front matter with 4,000 keys: OpenSkill {our_many:.0f} ms, skills-ref {their_many:,.0f} ms (with 80 keys:
{our_few:.1f} ms and {their_few:.1f} ms).

What is compared: deepagents 0.7.32 runs `SkillsMiddleware.before_agent` on a `FilesystemBackend`, which is what it does
before the first model call; skills-ref 0.1.1 runs `validate` on each folder, as its command line does.
OpenSkill runs `Catalog.from_paths`, which also checks every skill against the specification, reports what it finds, and
resolves precedence and requirements. deepagents looks one level deep and reports nothing.
"""


def write_discovery(docs: Path, count: int, targets: Sequence[Target], best: Mapping[str, Mapping[str, Any]]) -> None:
    """Renew the section and its picture below `docs`."""
    bars = [
        Bar("only reading the files", best["files_read"]["seconds"], ours=False),
        Bar("OpenSkill, unchanged refresh", best["openskills_first"]["refresh"]),
        Bar("OpenSkill, new process with index", best["openskills_indexed"]["seconds"]),
        Bar("OpenSkill, first discovery", best["openskills_first"]["seconds"]),
        Bar("deepagents", best["deepagents"]["seconds"], ours=False),
        Bar("skills-ref validate", best["skills_ref"]["seconds"], ours=False),
    ]
    first = best["openskills_first"]["seconds"]
    ours, theirs = best["openskills_keys"], best["skills_ref_keys"]
    section = _SECTION.format(
        count=count,
        promises=promises(targets),
        bars="\n".join(f"| {bar.label} | {time_text(bar.seconds)} | {bar.seconds / first:.2f}x |" for bar in bars),
        our_many=ours["many"] * 1000,
        their_many=theirs["many"] * 1000,
        our_few=ours["few"] * 1000,
        their_few=theirs["few"] * 1000,
    )
    write_picture(docs, "discovery", f"Time to find {count:,} skills", bars)
    write_section(docs, "discovery", section)
