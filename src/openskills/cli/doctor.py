"""`openskills doctor`: check what this machine supports and what is missing.

`run_checks` only looks: it starts no process and writes no file. `probe_isolation` runs the self-test of each executor
in a temporary directory.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import CliProgress, escape_line, say, say_json
from openskills.cli.parameters import Json, SourceOptions, Text, option
from openskills.cli.skills import complete_skill
from openskills.cli.workspaces import open_temporary_workspace
from openskills.errors import ExecutorUnavailable, InvalidArgument, SkillError
from openskills.settings import Settings
from openskills.sync import run
from openskills.version import __version__

if TYPE_CHECKING:
    from openskills.catalog.skill import Skill
    from openskills.executors.hints import SkillNeeds


def doctor(
    settings: Settings,
    sources: SourceOptions,
    skill: Annotated[
        Text, option("SKILL", "Check what a skill needs; its name, or its folder.", autocompletion=complete_skill)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what this machine supports, what is missing, and what to install.

    Executors are checked with their self-tests, which run harmless commands. Nothing is changed or left behind.

    With --skill, show the packages, programs and variables that the skill needs, and which are missing where its
    commands run. Imports are a guess from its scripts, which are not executed.

    Examples:
      openskills doctor
      openskills doctor --skill ./skills/pdf-tools
      openskills doctor --skill pdf-tools skills/
      openskills doctor --json

    Exit codes: 0 everything required is there, 1 something is missing.
    """
    if sources.addresses and skill is None:
        raise InvalidArgument("PATH", "needs --skill, the skill of these sources to check")
    if skill is not None:
        from openskills.cli.run import find_skill

        with CliProgress("checking the skill"):
            found = probe_skill(find_skill(skill, sources.addresses, settings, trusted=sources.trust), settings)
    else:
        with CliProgress("checking the executors"):
            found = [*run_checks(settings), *probe_isolation(settings)]
    missing = [check for check in found if check.required and not check.ok]
    if as_json:
        checks = [{**asdict(check), "fix": None if check.ok else check.fix} for check in found]
        say_json({"ok": not missing, "checks": checks})
    else:
        for section in dict.fromkeys(check.section for check in found):
            say((section, "bold"))
            for check in found:
                if check.section == section:
                    _show_check(check)
        say("")
        if missing:
            say(("something required is missing: ", "bold red"), ", ".join(check.name for check in missing))
        else:
            say(("everything required is there", "bold green"))
    if missing:
        raise typer.Exit(1)


def _show_check(check: "DoctorCheck") -> None:
    if check.ok:
        state = ("ok      ", "green")
    elif check.required:
        state = ("missing ", "bold red")
    else:
        state = ("warning " if check.name in _CONFLICTS else "absent  ", "yellow")
    say("  ", state, (f"{check.name:<18}", "cyan"), escape_line(check.detail))
    if not check.ok and check.fix:
        say(" " * 28, ("fix: ", "bold"), escape_line(check.fix))


DISTRIBUTION = "openskill-runtime"
OLDEST_PYTHON = (3, 11)
_MIN_WATCHES = 8192
_CONFLICTS = ("command", "package")
"""Checks that find another program or distribution of our name, not something that is missing."""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The result of one check. `fix` says what to do when it failed."""

    section: str
    name: str
    ok: bool
    detail: str
    required: bool = False
    fix: str | None = None


def run_checks(settings: Settings) -> Iterator[DoctorCheck]:
    """Everything that can be checked without starting a process, in the order in which it is shown."""
    version = ".".join(map(str, sys.version_info[:3]))
    fix = f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer"
    yield DoctorCheck("basics", "Python", sys.version_info >= OLDEST_PYTHON, version, required=True, fix=fix)
    yield DoctorCheck("basics", "openskills", True, __version__, required=True)
    yield probe_command(settings)
    yield probe_package()
    yield _probe_package("basics", "PyYAML", "reading front matter", required=True)
    yield _probe_libyaml()
    yield _probe_package("sources", "httpx2", "skills from URLs", required=True)
    yield _probe_writable("cache", settings.cache_dir, "OPENSKILL_CACHE_DIR")
    yield _probe_writable("fetched skills", settings.skills_cache_dir, "SKILLS_CACHE_DIR")
    yield _probe_writable("configuration", settings.config_dir, "OPENSKILL_CONFIG_DIR")
    yield _probe_program(settings, "sources", "git", "skills from git repositories", "on Debian: apt-get install git")
    yield _probe_package("watching", "watchfiles", "watching files for changes", required=True)
    yield from _probe_watches()
    yield _probe_program(settings, "sources", "uv", "packages that skills declare", "pip install uv")
    yield from _probe_extras()
    yield from _probe_models(settings)


def probe_command(settings: Settings) -> DoctorCheck:
    """Whether `openskills` on the PATH is the command of this installation and not another program."""
    found = shutil.which("openskills", path=settings.search_path)
    if found is None:
        return DoctorCheck("basics", "command", True, f"not on the PATH; use {sys.executable} -m openskills")
    own = _own_scripts()
    if os.path.realpath(found) in {os.path.realpath(script) for script in own}:
        return DoctorCheck("basics", "command", True, found)
    detail = f"another program comes first on the PATH: {found}; this is {own[0]}"
    fix = f"remove it, put {own[0].parent} before {os.path.dirname(found)} on the PATH, or use"
    return DoctorCheck("basics", "command", False, detail, fix=f"{fix} {sys.executable} -m openskills")


def _own_scripts() -> list[Path]:
    """Where the script `openskills` of this installation may be: beside Python, as recorded by pip, or running now."""
    scripts = [Path(sys.executable).parent / "openskills"]
    try:
        recorded = metadata.distribution(DISTRIBUTION).files or ()
        scripts += [Path(str(file.locate())) for file in recorded if file.name == "openskills"]
    except metadata.PackageNotFoundError:
        pass
    # A wrapper script, such as that of zipapps: whatever runs this command is ours.
    return [*scripts, Path(sys.argv[0])] if os.path.basename(sys.argv[0]) == "openskills" else scripts


def probe_package() -> DoctorCheck:
    """Whether another installed distribution also provides the import name `openskills`."""
    providers = metadata.packages_distributions().get("openskills", ())
    others = sorted({name for name in providers if re.sub(r"[-_.]+", "-", name).lower() != DISTRIBUTION})
    if not others:
        return DoctorCheck("basics", "package", True, f"only {DISTRIBUTION} provides the package openskills")
    names = " ".join(others)
    detail = f"another distribution also provides the package openskills: {names}"
    fix = f"pip uninstall {names}, then pip install --force-reinstall {DISTRIBUTION}"
    return DoctorCheck("basics", "package", False, detail, fix=fix)


def _probe_libyaml() -> DoctorCheck:
    fix = "pip install --force-reinstall PyYAML (its wheels include libyaml)"
    try:
        import yaml
    except ImportError:
        return DoctorCheck("basics", "libyaml", False, "PyYAML is missing", fix=fix)
    there = bool(getattr(yaml, "__with_libyaml__", False))
    detail = "used by PyYAML" if there else "PyYAML was built without it: reading is about ten times slower"
    return DoctorCheck("basics", "libyaml", there, detail, fix=fix)


def _probe_package(section: str, name: str, purpose: str, *, required: bool) -> DoctorCheck:
    version = _find_version(name)
    detail = f"{version or 'missing'}, for {purpose}"
    return DoctorCheck(section, name, version is not None, detail, required, f"pip install {name}")


_EXTRAS = {
    "tokens": (("bpe-openai",), "exact token counts"),
    "openai": (("openai",), "models of OpenAI and compatible servers, also local ones"),
    "anthropic": (("anthropic",), "models of Anthropic"),
    "docker": (("docker",), "commands in containers"),
    "postgres": (("asyncpg",), "sessions in PostgreSQL"),
    "redis": (("redis",), "sessions in Redis"),
    "ray": (("ray", "grpcio"), "commands on a Ray cluster"),
    "s3": (("obstore",), "artifacts in S3"),
    "host": (("fastapi", "jsonschema-rs", "orjson", "uvicorn"), "the HTTP host"),
    "mcp": (("mcp",), "MCP clients and servers"),
    "langchain": (("langchain", "langgraph"), "agents of LangChain"),
    "deepagents": (("deepagents", "langchain", "langgraph"), "deepagents"),
    "pydantic-ai": (("pydantic-ai-slim",), "agents of Pydantic AI"),
    "openai-agents": (("openai-agents",), "the OpenAI Agents SDK"),
    "otel": (("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"), "OpenTelemetry"),
}
"""The extras of this distribution: their packages, and what they are for."""


def _probe_extras() -> Iterator[DoctorCheck]:
    for extra, (packages, purpose) in _EXTRAS.items():
        missing = [package for package in packages if _find_version(package) is None]
        state = f"{', '.join(missing)} not installed" if missing else f"{packages[0]} {_find_version(packages[0])}"
        fix = f"pip install '{DISTRIBUTION}[{extra}]'"
        yield DoctorCheck("extras", extra, not missing, f"{state}, for {purpose}", fix=fix)


_KEYS = {"OPENAI_API_KEY": "openai/NAME", "ANTHROPIC_API_KEY": "anthropic/NAME"}


def _probe_models(settings: Settings) -> Iterator[DoctorCheck]:
    for variable, name in _KEYS.items():
        ok = bool(settings.environment.get(variable))
        yield DoctorCheck(
            "models", variable, ok, f"{'set' if ok else 'not set'}, for {name}", fix=f"export {variable}=..."
        )
    servers = list(find_model_servers(settings))
    for server, url, models in servers:
        detail = f"answers at {url}: {', '.join(models[:_MAX_MODELS]) or 'no models'}"
        yield DoctorCheck("models", server, True, detail + (" ..." if len(models) > _MAX_MODELS else ""))
    if not servers:
        detail = "no local server (Ollama, vLLM, llama.cpp) answers on its default port"
        yield DoctorCheck("models", "local models", False, detail, fix="start one, such as: ollama serve")


_MAX_MODELS = 8
_MAX_CHUNKS = 64


def find_model_servers(settings: Settings) -> Iterator[tuple[str, str, list[str]]]:
    """Model servers that answer on their default ports of this machine, or at `OLLAMA_HOST`: name, URL and models."""
    import httpx2

    from openskills.agent.models.open import ollama_base_url

    servers = {"vLLM": "http://127.0.0.1:8000/v1", "llama.cpp": "http://127.0.0.1:8080/v1"}
    for server, url in {"Ollama": ollama_base_url(settings), **servers}.items():
        try:
            with httpx2.stream("GET", f"{url}/models", timeout=0.5, trust_env=False) as answer:
                data = json.loads(b"".join(islice(answer.iter_bytes(), _MAX_CHUNKS)))
            models = [str(model["id"]) for model in data["data"]]
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError, KeyError):
            # Nothing listens there, or something else.
            continue
        yield server, url, models


def _find_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _probe_writable(name: str, directory: Path, variable: str) -> DoctorCheck:
    existing = next(folder for folder in (directory, *directory.parents) if folder.exists())
    ok = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    detail = str(directory) if ok else f"{directory} is not writable (because of {existing})"
    fix = f"make {existing} a directory you can write to, or set {variable}"
    return DoctorCheck("directories", name, ok, detail, required=True, fix=fix)


def _probe_program(settings: Settings, section: str, program: str, purpose: str, fix: str) -> DoctorCheck:
    path = shutil.which(program, path=settings.search_path)
    return DoctorCheck(section, program, path is not None, f"{path or 'not on the PATH'}, for {purpose}", fix=fix)


def _probe_watches() -> Iterator[DoctorCheck]:
    if sys.platform != "linux":
        return
    limit = _read_number("/proc/sys/fs/inotify/max_user_watches")
    detail = f"{limit:,} watches for each user" if limit is not None else "the limit of watches is unknown"
    ok = limit is not None and limit >= _MIN_WATCHES
    yield DoctorCheck("watching", "inotify", ok, detail, fix="sysctl fs.inotify.max_user_watches=65536")


def _read_number(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None


_LOOK = """
import importlib.util, json, shutil, sys
wanted = json.loads(sys.argv[1])
def has(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
print(json.dumps({"modules": [name for name in wanted["modules"] if has(name)],
                  "programs": [name for name in wanted["programs"] if shutil.which(name)]}))
"""


def probe_skill(skill: "Skill", settings: Settings) -> list[DoctorCheck]:
    """Check what a skill needs where its commands run. Nothing of the skill is executed."""
    from openskills.executors.hints import PROGRAMS, find_needs
    from openskills.executors.staging.packages import distribution_from_module

    needs, requirements = find_needs(skill), skill.manifest.requirements
    declared = needs.declared
    programs = {**needs.programs, **dict.fromkeys(requirements.bins, "SKILL.md")}
    installed, found = run(_look_up(needs, [*programs], settings))
    checks: list[DoctorCheck] = []
    if declared.packages:
        detail = f"{declared.packages}, declared in {', '.join(declared.sources)}"
        fix = f"openskills run {skill.name} --install always -- COMMAND, or openskills chat, which asks"
        checks.append(DoctorCheck("packages", "declared", installed, detail, required=True, fix=fix))
    checks += [DoctorCheck("packages", "warning", False, warning) for warning in declared.warnings]
    for module, file in needs.imports.items():
        package = distribution_from_module(module)
        # Without their environment, modules of declared packages are missing, and that is reported above.
        required = not declared.packages
        fix = f"add --with {package}, or packages = [{json.dumps(package)}] in openskills.toml"
        ok = module in found["modules"]
        checks.append(DoctorCheck("imports", module, ok, f"imported by {file}", required=required, fix=fix))
    for program, file in programs.items():
        fix = f"on Debian: apt-get install {PROGRAMS.get(program, program)}"
        required, ok = program in requirements.bins, program in found["programs"]
        checks.append(DoctorCheck("programs", program, ok, f"used by {file}", required=required, fix=fix))
    for name in requirements.env:
        ok = bool(settings.environment.get(name))
        fix = f"export {name}=..., then pass it on with --secret {name}"
        checks.append(DoctorCheck("variables", name, ok, "set" if ok else "not set", required=True, fix=fix))
    return checks or [DoctorCheck("packages", "needs", True, "nothing that its files mention")]


async def _look_up(needs: "SkillNeeds", programs: list[str], settings: Settings) -> tuple[bool, dict[str, list[str]]]:
    """Whether the declared packages are installed, and which modules and programs commands find."""
    from openskills.executors.environments import find_packages
    from openskills.executors.spec import NO_PACKAGES, Command

    async with open_temporary_workspace(settings.executor, settings) as workspace:
        packages = needs.declared.packages
        stored = await find_packages(packages, workspace, settings) if packages else None
        wanted = json.dumps({"modules": [*needs.imports], "programs": programs})
        process = await workspace.start(Command(("python3", "-c", _LOOK, wanted), packages=stored or NO_PACKAGES))
        ended = await process.wait()
    if ended.exit_code:
        raise ExecutorUnavailable(f"python3 does not work where commands run: {ended.stderr.text().strip()[-300:]}")
    return stored is not None, json.loads(ended.stdout.text())


_SECTION = "isolation"


def probe_isolation(settings: Settings) -> Iterator[DoctorCheck]:
    """Run the self-test of each executor, from the strongest isolation to none."""
    from openskills.executors.open import DESCRIPTIONS

    if sys.platform == "linux":
        for name, package in (("bwrap", "bubblewrap"), ("setpriv", "util-linux")):
            path = shutil.which(name, path=settings.search_path)
            detail = path or f"{name} is not on the PATH; `sandbox` needs it"
            yield DoctorCheck(_SECTION, name, path is not None, detail, fix=f"on Debian: apt-get install {package}")
        yield _probe_user_namespaces()
    failures = {name: _find_failure(name, settings) for name in DESCRIPTIONS if name != "local"}
    for name, failure in failures.items():
        detail = DESCRIPTIONS[name] if failure else f"self-test passed; {DESCRIPTIONS[name]}"
        yield DoctorCheck(_SECTION, name, failure is None, detail, fix=failure)
    if sys.platform == "linux":
        yield _probe_cgroups()
    # The executor that commands use with the current settings.
    name = settings.executor
    if name == "auto":
        working = [one for one in ("sandbox", "container") if failures[one] is None]
        chosen = next(iter([*working, *(["local"] if settings.allow_local else [])]), None)
    else:
        chosen = name if _find_failure(name, settings) is None else None
    detail = f"{name}: commands of skills will be refused" if chosen is None else f"{name}: {chosen}"
    if chosen == "local":
        detail += f", as allowed by the settings: {DESCRIPTIONS['local']}"
    fix = "see the lines above, or choose another executor with OPENSKILL_EXECUTOR"
    yield DoctorCheck(_SECTION, "chosen", chosen is not None, detail, fix=fix)


def _find_failure(name: str, settings: Settings) -> str | None:
    """Why the self-test of an executor failed; None when it passed. Leaves nothing behind."""
    from openskills.executors.open import open_executor

    async def check(state: Path) -> None:
        tried = open_executor(name, replace(settings, state_dir=state))
        try:
            await tried.check()
        finally:
            await tried.close()

    with tempfile.TemporaryDirectory(prefix="openskills-doctor-") as state:
        try:
            run(check(Path(state)))
        except SkillError as error:
            return error.message
    return None


def _probe_cgroups() -> DoctorCheck:
    from openskills.executors.cgroup import ADVICE, find_cgroups
    from openskills.executors.supervisor import is_orphaned

    # After the self-tests, which may find out that it does not work.
    reason = find_cgroups(is_orphaned).reason
    detail = f"not used: {reason}" if reason else "used: the kernel limits the memory of all processes of a command"
    return DoctorCheck(_SECTION, "cgroup v2", not reason, detail, fix=ADVICE)


def _probe_user_namespaces() -> DoctorCheck:
    name = "user namespaces"
    if not Path("/proc/self/ns/user").exists():
        return DoctorCheck(_SECTION, name, False, "not supported by the kernel", fix="use one with CONFIG_USER_NS")
    for path, refusing, fix in (
        ("/proc/sys/user/max_user_namespaces", 0, "sysctl user.max_user_namespaces=15000"),
        ("/proc/sys/kernel/unprivileged_userns_clone", 0, "sysctl kernel.unprivileged_userns_clone=1"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1, "an AppArmor profile for bwrap"),
    ):
        if _read_number(path) == refusing and (os.geteuid() != 0 or path.endswith("max_user_namespaces")):
            return DoctorCheck(_SECTION, name, False, f"{path} is {refusing}", fix=fix)
    return DoctorCheck(_SECTION, name, True, "allowed by the kernel's settings")
