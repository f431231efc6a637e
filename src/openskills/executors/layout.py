"""How a workspace is laid out, and what its places are called. Pure."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.paths import relative

SKILLS, WORK, RUNS, OUT = "skills", "work", "runs", "out"
INPUTS = "work/inputs"
TOP = (SKILLS, WORK, RUNS, OUT)

LINKS: Mapping[str, str] = {"out": "../../out", "work": "../../work", "inputs": "../../work/inputs"}
"""What lies under a staged skill's root and leads to the workspace's own directories."""
VENV = ".venv"
RESERVED = frozenset({*LINKS, VENV})
"""Names at the top of a skill that a workspace puts something of its own in the place of."""

_VARIABLES = {"WORKSPACE_DIR": "", "SKILLS_DIR": SKILLS, "WORK_DIR": WORK, "OUTPUT_DIR": OUT}
_PREFIX = re.compile(r"\$(?:\{(\w+)\}|(\w+))(?=/|$)")


def variables(root: str, run_dir: str, skill: str | None) -> dict[str, str]:
    """The variables of the mission documents, as absolute paths under `root`."""
    found = {name: f"{root}/{place}" if place else root for name, place in _VARIABLES.items()}
    found["RUN_DIR"] = f"{root}/{run_dir}"
    if skill is not None:
        found["SKILL_NAME"] = skill
    return found


def expanded(path: str, *, run_dir: str | None = None, field: str = "path") -> str:
    """A path whose leading `$OUTPUT_DIR`, `${WORK_DIR}` … is replaced by the place it means, workspace-relative.

    Only the documented variables, only at the start: everything else is literal. The result is `""` for the
    workspace itself. Raises `InvalidArgument` for another variable at the start.
    """
    match = _PREFIX.match(path)
    if not match:
        return path
    name = match[1] or match[2]
    places = {**_VARIABLES, **({"RUN_DIR": run_dir} if run_dir else {})}
    if name not in places:
        known = ", ".join(f"${known}" for known in places)
        raise InvalidArgument(field, f"${name} is not a place of the workspace; use one of {known}")
    rest = path[match.end() :].lstrip("/")
    return "/".join(part for part in (places[name], rest) if part)


def working_directory(cwd: str, *, skill: str | None, run_dir: str) -> str:
    """Where a command runs, workspace-relative: `.` is the workspace, `skills/<name>` the default for a skill.

    A relative `cwd` is below the skill's root, `$WORK_DIR/x` and its kin below that place, an absolute one is below
    the workspace (`/` is the workspace itself). Raises `ForbiddenPath` for what climbs out or lies outside the four
    directories; nothing is ever silently redirected. Whether it exists is for the executor to find out.
    """
    home = f"{SKILLS}/{skill}" if skill else "."
    if not cwd or cwd == ".":
        return home
    place = expanded(cwd, run_dir=run_dir, field="cwd")
    if place is cwd and not cwd.startswith("/"):
        return str(PurePosixPath(home) / relative(cwd, field="cwd"))
    place = place.lstrip("/")
    if not place.strip("/."):
        if ".." in place.split("/"):
            raise ForbiddenPath(f"cwd: {cwd!r} climbs out with '..'")
        return "."
    path = relative(place, field="cwd")
    if path.parts[0] not in TOP:
        raise ForbiddenPath(f"cwd: {cwd!r} is not in the workspace; it has the directories {', '.join(TOP)}")
    return str(path)
