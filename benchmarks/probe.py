"""One measurement in one fresh process, printed as JSON: `probe.py NAME SKILLS-DIRECTORY`.

Runs in our environment and in that of the peers; each function imports only the library that it measures, and times
the work without that import.
"""

import gc
import importlib
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Measured = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that `work` took, and its result."""
    gc.collect()
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def peak_memory() -> int:
    """Kilobytes at the most so far. Not `ru_maxrss`, which a child takes over from its parent."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def files_read(skills: Path) -> Measured:
    """The floor: open and read every SKILL.md, whose paths are known."""
    paths = [os.path.join(entry.path, "SKILL.md") for entry in os.scandir(skills)]

    def work() -> int:
        total = 0
        for path in paths:
            with open(path, "rb") as file:
                total += len(file.read())
        return total

    seconds, size = timed(work)
    return {"seconds": seconds, "bytes": size, "found": len(paths)}


def bare(skills: Path) -> Measured:
    """An interpreter that does nothing, for its memory."""
    del skills
    return {}


def openskills_first(skills: Path) -> Measured:
    """First discovery without any index, then an unchanged refresh, in one process."""
    from openskills.catalog.catalog import Catalog
    from openskills.settings import Settings

    with tempfile.TemporaryDirectory() as cache:
        settings = Settings.from_env({"HOME": cache, "PATH": os.defpath, "OPENSKILL_INDEX": "0"})
        # The parser is loaded before the clock starts, as it is for the peers.
        Catalog.from_paths(Path(__file__).parent.parent / "skills", settings=settings)
        seconds, catalog = timed(lambda: Catalog.from_paths(skills, settings=settings))
        refreshes = [timed(catalog.refresh)[0] for _ in range(5)]
    return {
        "seconds": seconds,
        "refresh": statistics.median(refreshes),
        "found": len(catalog.skills) + len(catalog.snapshot.hidden),
    }


def openskills_indexed(skills: Path) -> Measured:
    """Discovery in a new process that finds the index of an earlier one; `PROBE_CACHE` says where."""
    from openskills.catalog.catalog import Catalog
    from openskills.settings import Settings

    settings = Settings.from_env({"HOME": os.environ["PROBE_CACHE"], "PATH": os.defpath})
    seconds, catalog = timed(lambda: Catalog.from_paths(skills, settings=settings))
    return {"seconds": seconds, "found": len(catalog.skills) + len(catalog.snapshot.hidden)}


def deepagents(skills: Path) -> Measured:
    """What deepagents does before the first model call."""
    backends: Any = importlib.import_module("deepagents.backends")
    module: Any = importlib.import_module("deepagents.middleware.skills")
    logging.disable(logging.CRITICAL)
    backend = backends.FilesystemBackend(root_dir=str(skills), virtual_mode=False)
    middleware = module.SkillsMiddleware(backend=backend, sources=[str(skills)])
    seconds, update = timed(lambda: middleware.before_agent({}, None, {}))
    return {"seconds": seconds, "found": len(update["skills_metadata"])}


def skills_ref(skills: Path) -> Measured:
    """Validation with the reference library, skill by skill."""
    check: Any = importlib.import_module("skills_ref").validate
    folders = [Path(entry.path) for entry in os.scandir(skills)]
    seconds, found = timed(lambda: sum(1 for folder in folders if check(folder) is not None))
    return {"seconds": seconds, "found": found}


def google_adk_listed(skills: Path) -> Measured:
    """The front matter of every skill, checked."""
    listed: Any = importlib.import_module("google.adk.skills").list_skills_in_dir
    seconds, found = timed(lambda: listed(skills))
    return {"seconds": seconds, "found": len(found)}


def google_adk_loaded(skills: Path) -> Measured:
    """Every skill with all its files, as its toolset wants them."""
    loaded: Any = importlib.import_module("google.adk.skills").load_skills_from_dir
    seconds, found = timed(lambda: loaded(skills))
    return {"seconds": seconds, "found": len(found)}


def pydantic_ai_skills(skills: Path) -> Measured:
    """What an agent is given."""
    capability: Any = importlib.import_module("pydantic_ai_skills").SkillsCapability
    seconds, found = timed(lambda: capability(str(skills)))
    return {"seconds": seconds, "found": len(found.skill_names)}


def trpc_agent(skills: Path) -> Measured:
    """A repository as its toolset makes it from paths."""
    repository: Any = importlib.import_module("trpc_agent_sdk.skills").FsSkillRepository
    seconds, found = timed(lambda: repository(str(skills)))
    return {"seconds": seconds, "found": len(found.skill_list())}


def trpc_agent_cached(skills: Path) -> Measured:
    """A repository that keeps what it has parsed; nobody watches the folder, or the next one would pay for that."""
    create: Any = importlib.import_module("trpc_agent_sdk.skills").create_default_skill_repository
    seconds, found = timed(lambda: create(str(skills), enable_hot_reload=False))
    return {"seconds": seconds, "found": len(found.skill_list())}


def fastmcp(skills: Path) -> Measured:
    """A provider, which finds skills when it is made."""
    provider: Any = importlib.import_module("fastmcp.server.providers.skills").SkillsDirectoryProvider
    seconds, found = timed(lambda: provider(roots=skills))
    return {"seconds": seconds, "found": len(found.providers)}


def openskills_keys(count: int) -> Measured:
    """Front matter with so many keys."""
    from openskills.skillmd.parse import parse

    text = _many_keys(count)
    seconds, result = timed(lambda: parse(text))
    return {"seconds": seconds, "found": len(result.manifest.metadata) if result.manifest else 0}


def skills_ref_keys(count: int) -> Measured:
    """The same with the reference library."""
    read: Any = importlib.import_module("skills_ref.parser").parse_frontmatter
    text = _many_keys(count)
    seconds, (front, _) = timed(lambda: read(text))
    return {"seconds": seconds, "found": len(front["metadata"])}


def _many_keys(count: int) -> str:
    keys = "".join(f"  key-{number:04d}: value {number:08d}\n" for number in range(count))
    return f"---\nname: many\ndescription: Has many keys. Use when measuring.\nmetadata:\n{keys}---\nbody\n"


PROBES: dict[str, Callable[[Path], Measured]] = {
    probe.__name__: probe
    for probe in (
        *(files_read, bare, openskills_first, openskills_indexed),
        *(deepagents, skills_ref, google_adk_listed, google_adk_loaded),
        *(pydantic_ai_skills, trpc_agent, trpc_agent_cached, fastmcp),
    )
}
KEYS: dict[str, Callable[[int], Measured]] = {probe.__name__: probe for probe in (openskills_keys, skills_ref_keys)}

if __name__ == "__main__":
    # A benchmark may have the name of a library: looked for last, it is in nobody's way.
    sys.path.append(sys.path.pop(0))
    answer = PROBES[sys.argv[1]](Path(sys.argv[2]))
    answer["peak_kb"] = peak_memory()
    print(json.dumps(answer))
