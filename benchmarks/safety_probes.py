"""What attacks on the machine get hold of: under our executors, under others, and with nothing that holds them."""

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from report import Target
from running_part import NotMeasured, Part, Surroundings, plain_table
from safety_hosts import BARE, Hosts, hosts, not_tried, subjects

HELD, LEAKED, HUNG, BROKEN = "held", "leaked", "hung", "broken"

_ABOUT = """
The probes of `tests/hostile`: each tries to reach one thing that was planted around the place where a skill's command
runs (a secret in a file, a variable, a process, a socket; a limit), and reports what it got. *Held*: the probe got
nothing. *Leaked*: it got what it tried to get. *Hung*: no answer within 20 seconds. *Broken*: the probe itself
failed, which proves nothing and therefore counts as a failure. The first table has the probes that succeed on this
machine for an unprivileged user without any isolation; all libraries are compared with them. These are harmless.
Probes that could damage the machine are only tried where they are certain to be held, and are in the second table.
All commands run as that user in a temporary directory; containers need a host that runs as root. Other libraries are
tested with what runs commands on the machine by default: {others}. None of them claims to isolate commands. These
tables are about commands: secrets, network, processes and resources here, timeouts and collected files in the next
part. Other hostile input (paths in arguments, archives, `SKILL.md` and manifests, HTTP requests, crashes and full
disks) is tested in `tests/`; it concerns our own parsers, host and stores, for which most other libraries have no
counterpart.
"""


@dataclass(frozen=True)
class Battery:
    """What the probes came to under one subject: by the id of the probe, how it ended; of the broken ones, why."""

    endings: Mapping[str, str]
    broken: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, probes: Sequence[str]) -> Counter[str]:
        """How many of these ended how."""
        return Counter(self.endings[one] for one in probes if one in self.endings)

    def those(self, ending: str) -> list[str]:
        """The probes that ended so."""
        return sorted(one for one, found in self.endings.items() if found == ending)


async def measure(at: Surroundings) -> Part:
    """All subjects, one after the other."""
    ours, peers = subjects(at.extent)
    missing = not_tried(at.extent)
    compared: dict[str, Battery] = {}
    asked: dict[str, Battery] = {}
    with hosts() as running:
        at.say(f"probes: {BARE}")
        compared[BARE] = _battery(running.battery(BARE))
        for name in ours:
            at.say(f"probes: {name}")
            try:
                asked[name] = _battery(running.battery(name))
                # Of `local` little is asked; the others are asked for all of it anyway.
                compared[name] = _battery(running.battery(name, "harmless")) if name == "local" else asked[name]
            except NotMeasured as reason:
                missing.append(str(reason))
        for peer in peers:
            at.say(f"probes: {peer.name}")
            try:
                compared[peer.name] = _battery(running.probes(peer))
            except NotMeasured as reason:
                missing.append(str(reason))
        table = f"{_comparison(running, compared)}\n\n{_promised(asked)}"
    missing += _breakages({**compared, **asked})
    others = ", ".join(f"{peer.runs} of {peer.name}" for peer in peers)
    return Part(
        "Attacks",
        _ABOUT.format(others=others),
        _targets(asked, ours, missing),
        table,
        missing=missing,
        raw={
            "compared": {name: _raw(one, compared[BARE].those(LEAKED)) for name, one in compared.items()},
            "asked": {name: _raw(one, list(one.endings)) for name, one in asked.items()},
        },
    )


def _battery(report: Mapping[str, Any]) -> Battery:
    endings: dict[str, str] = {}
    for identity, result in report["results"].items():
        broken = HUNG if result["detail"] == "no answer" else BROKEN
        endings[identity] = broken if result.get("broken") else LEAKED if result["escaped"] else HELD
    reasons = {one: str(report["results"][one]["detail"]) for one, ending in endings.items() if ending == BROKEN}
    return Battery(endings, reasons)


def _breakages(found: Mapping[str, Battery]) -> list[str]:
    return [f"{name}: the probe {one} is broken: {why}" for name, by in found.items() for one, why in by.broken.items()]


def _targets(asked: Mapping[str, Battery], ours: Sequence[str], missing: Sequence[str]) -> list[Target]:
    """What an executor leaves open by its own words is in `tests/hostile/promises.py`; nothing else may leak."""
    said: Any = importlib.import_module("tests.hostile.promises").NOT_PROMISED
    targets: list[Target] = []
    for name in ours:
        battery = asked.get(name)
        leaked = None if battery is None else [one for one in battery.those(LEAKED) if one not in said.get(name, {})]
        failed = None if battery is None else len(battery.those(HUNG)) + len(battery.those(BROKEN))
        value = None if failed is None or leaked is None else float(len(leaked) + failed)
        why = "; ".join(reason for reason in missing if reason.startswith(name))
        # How many there are is in the table: a promise has one name in every run.
        promise = f"{name}: probes that leaked, hung or broke, of those it must hold"
        targets.append(Target(promise, value, 0, at_least=False, unit="probes", digits=0, why=why))
    return targets


def _comparison(running: Hosts, compared: Mapping[str, Battery]) -> str:
    """Everybody with the probes that succeed bare, by family."""
    armed = compared[BARE].those(LEAKED)
    families = _families(armed)
    how = (HELD, LEAKED, HUNG, BROKEN)
    head = [f"{len(armed)} probes", "host", *how, "not tried", *(f"leaked: {name}" for name in families)]
    rows: list[list[str]] = []
    for name, battery in compared.items():
        found = battery.of(armed)
        by_family = [f"{battery.of(probes)[LEAKED]} of {len(probes)}" for probes in families.values()]
        counts = [*(found[one] for one in how), sum(one not in battery.endings for one in armed)]
        rows.append([name, running.who(name), *map(str, counts), *by_family])
    return plain_table(head, rows)


def _promised(asked: Mapping[str, Battery]) -> str:
    """Ours with everything that is asked of each."""
    said: Any = importlib.import_module("tests.hostile.promises").NOT_PROMISED
    rows: list[list[str]] = []
    for name, battery in asked.items():
        counts = battery.of(list(battery.endings))
        open_ones = sum(one in said.get(name, {}) for one in battery.those(LEAKED))
        cells = [len(battery.endings), counts[HELD], counts[LEAKED], open_ones, counts[HUNG], counts[BROKEN]]
        rows.append([name, *map(str, cells)])
    return plain_table(["executor", "probes", HELD, LEAKED, "documented as open", HUNG, BROKEN], rows)


def _families(probes: Sequence[str]) -> dict[str, list[str]]:
    module: Any = importlib.import_module("tests.hostile.probes.battery")
    known: Mapping[str, Any] = module.PROBES
    return {group: [one for one in probes if known[one].group == group] for group in module.GROUPS}


def _raw(battery: Battery, probes: Sequence[str]) -> dict[str, object]:
    counts = {ending: battery.of(probes)[ending] for ending in (HELD, LEAKED, HUNG, BROKEN)}
    return {**counts, "leaks": [one for one in battery.those(LEAKED) if one in probes]}
