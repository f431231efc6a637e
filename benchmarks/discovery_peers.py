"""Other libraries that find skills, each in the environment that it is installed in, and processes that measure."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peer_process import Installed
from readings import Reading, Take
from running_part import NotMeasured

PROBE = Path(__file__).resolve().with_name("probe.py")
_TIMEOUT = 180.0


class Ourselves(Installed):
    """This library, which the interpreter that measures has."""

    @property
    def python(self) -> Path:
        """Our own interpreter."""
        return Path(sys.executable)

    def check(self) -> None:
        """It is here."""


@dataclass(frozen=True)
class Finder:
    """A library, the probe that measures how it finds skills, and what of it that is."""

    library: Installed
    probe: str
    does: str


OURS = Ourselves("OpenSkill", "", "openskills")
_TRPC = Installed("trpc-agent-py", "running", "trpc_agent_sdk")
_ADK = Installed("google-adk", "adk", "google/adk")
DEEPAGENTS, SKILLS_REF = "deepagents", "skills-ref validate"
FINDERS = {
    DEEPAGENTS: Finder(
        Installed("deepagents", "venv", "deepagents"),
        "deepagents",
        "`SkillsMiddleware.before_agent` on a `FilesystemBackend`, which is what it does before the first model call",
    ),
    SKILLS_REF: Finder(
        Installed("skills-ref", "venv", "skills_ref"),
        "skills_ref",
        "`validate` on each folder, as its command line does",
    ),
    "google-adk, listed": Finder(_ADK, "google_adk_listed", "`list_skills_in_dir`, front matter only"),
    "google-adk, loaded": Finder(_ADK, "google_adk_loaded", "`load_skills_from_dir`, which its toolset needs"),
    "pydantic-ai-skills": Finder(
        Installed("pydantic-ai-skills", "pydantic", "pydantic_ai_skills"),
        "pydantic_ai_skills",
        "`SkillsCapability(directory)`",
    ),
    "trpc-agent-py, its default": Finder(
        _TRPC, "trpc_agent", "`FsSkillRepository`, which `SkillToolSet(paths=...)` makes"
    ),
    "trpc-agent-py, cached": Finder(
        _TRPC, "trpc_agent_cached", "`create_default_skill_repository`, without watching the folder"
    ),
    "FastMCP": Finder(
        Installed("FastMCP", "fastmcp", "fastmcp"), "fastmcp", "`SkillsDirectoryProvider(roots=directory)`"
    ),
}
"""All of the peers can find a folder of skills."""


def in_new_process(probe: str, skills: Path, library: Installed = OURS, *, cache: Path | None = None) -> Take:
    """One measurement in a process of its own, with the interpreter that has the library."""

    async def once() -> Reading:
        return measured(probe, skills, library, cache=cache)

    return once


def measured(probe: str, skills: Path, library: Installed = OURS, *, cache: Path | None = None) -> dict[str, Any]:
    """What a probe says. Raises `NotMeasured` where the library is missing, fails or does not end."""
    library.check()
    name = library.name
    environment = {"HOME": str(cache or skills.parent), "PATH": os.defpath, "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
    if cache:
        environment["PROBE_CACHE"] = str(cache)
    try:
        done = subprocess.run(
            [str(library.python), str(PROBE), probe, str(skills)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"{name}: did not finish within {_TIMEOUT:g} seconds") from None
    except OSError as error:
        raise NotMeasured(f"{name}: could not be started: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise NotMeasured(f"{name}: it failed with {said[-1][:200]}")
    return json.loads(done.stdout.splitlines()[-1])
