"""What a skill needs, and hints for failed commands: a line with the remedy for a missing package, program, host …"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from openskills.catalog.skill import SKILL_FILE, Skill
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.spec import Command, CommandResult
from openskills.executors.staging.packages import (
    DeclaredPackages,
    distribution_from_module,
    find_declared_packages,
    find_imports,
)

_PROGRAM_PACKAGES = """
libreoffice soffice libreoffice  pandoc pandoc  ffmpeg ffmpeg ffprobe  imagemagick convert magick montage
poppler-utils pdftotext pdftoppm pdfimages pdfinfo pdfunite  qpdf qpdf  pdftk-java pdftk  ghostscript gs
tesseract-ocr tesseract  nodejs node  npm npm npx  git git  curl curl  wget wget  jq jq  zip zip  unzip unzip
default-jre-headless java  graphviz dot  ripgrep rg  build-essential gcc g++ make  libimage-exiftool-perl exiftool
texlive-latex-base pdflatex  sqlite3 sqlite3  ruby ruby  php-cli php  golang go  cargo cargo  libxml2-utils xmllint
"""
PROGRAMS: Mapping[str, str] = {
    program: words[0]
    for words in map(str.split, _PROGRAM_PACKAGES.replace("\n", "  ").split("  "))
    for program in words[1:]
}
"""Programs that skills use, and the Debian packages that have them."""

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]{1,300})`")
_COMMAND = re.compile(r"(?:^|[|;&(]|\$\()[ \t]*(?:\$ |sudo )?([A-Za-z][\w.+-]{0,40})(?=[ \t\n]|$)", re.MULTILINE)
_CALL = re.compile(
    r"""(?:\[|(?:run|Popen|call|output|system|which|spawn\w*|exec\w*)\()\s*\[?\s*f?["'`]([a-z][\w+-]{0,40})\b"""
)
_SHOWN = 16 * 1024
_MAX_SCANNED = 256 * 1024
_SCANNED = (".md", ".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".txt", ".toml", "package.json")
_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]{1,200})'")
_NODE_MODULE = re.compile(r"Cannot find (?:module|package) '((?:@[\w.-]+/)?[\w.-]+)[^']*'")
_SHELL = (
    re.compile(r"(?:^|: )([\w.+-]{1,100}): command not found", re.MULTILINE),
    re.compile(r"^(?:/bin/)?(?:sh|dash): \d+: ([\w.+-]{1,100}): not found", re.MULTILINE),
)
# The name may be that of any file, so only known programs count.
_START = (
    re.compile(r"FileNotFoundError: \[Errno 2\] No such file or directory: '([\w.+-]{1,100})'"),
    re.compile(r"spawn ([\w.+-]{1,100}) ENOENT"),
)
_PIP = re.compile(r"(?:No matching distribution found for|satisfies the requirement) ([A-Za-z0-9][\w.-]*)")
_READ_ONLY = re.compile(r"(?:Read-only file system|EROFS)(?::? '([^']+)')?")
_ALLOW = re.compile(r"to allow it, add '([^']+)'")
_UNRESOLVED = (
    re.compile(r"Could not resolve host: ([\w.-]{1,253})"),
    re.compile(r"Could not resolve proxy|Name or service not known|Temporary failure in name resolution"),
    re.compile(r"host='([\w.-]{1,253})'"),
    re.compile(r"getaddrinfo (?:ENOTFOUND|EAI_AGAIN) ([\w.-]{1,253})"),
    re.compile(r"Network is unreachable"),
)
# Bounded, because the output of a command is not trusted.
_SECRET = r"([A-Z][A-Z0-9_]{1,60}_(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS))"  # noqa: S105 - an expression
_SECRETS = (
    re.compile(rf"KeyError: '{_SECRET}'"),
    re.compile(rf"\b{_SECRET}\b[^\n]{{0,60}}\b(?:not set|unset|missing|required|undefined|not found)", re.IGNORECASE),
    re.compile(rf"(?:missing|set|required|provide|export)\b[^\n]{{0,60}}\b{_SECRET}\b", re.IGNORECASE),
)


def suggest_remedies(ended: CommandResult, command: Command) -> list[str]:
    """What the user can do about a failed command, for the user and for the model; empty if nothing is known."""
    # The end of both streams: programs report the reason last, and some on stdout.
    text = f"{ended.stdout.text()[-_SHOWN:]}\n{ended.stderr.text()[-_SHOWN:]}"
    found = [*_suggest_packages(text), *_suggest_programs(text)]
    if match := _READ_ONLY.search(text):
        where = f" ({match[1]})" if match[1] else ""
        found.append(f"read-only file system{where}: write to out/, work/ or the skill's own folder")
    if "No space left on device" in text or "ENOSPC" in text:
        found.append(
            "no space: the home and temporary directories are small; use $WORK_DIR, for caches with "
            "--env XDG_CACHE_HOME=/workspace/work/cache or XDG_DATA_HOME"
        )
    found += _suggest_network(text, ended.notes, command.network)
    missing = dict.fromkeys(match[1] for pattern in _SECRETS for match in pattern.finditer(text))
    found += [
        f"the variable {name} is not set: if the skill may have it, add --secret {name}, or a secret in openskills.toml"
        for name in missing
        if name.isupper() and name not in command.secrets
    ]
    return list(dict.fromkeys(found))


def _suggest_packages(text: str) -> Iterator[str]:
    for match in _MODULE.finditer(text):
        package = distribution_from_module(match[1])
        yield f"the Python module {match[1]!r} is missing: {_advise(package)}"
    for match in _NODE_MODULE.finditer(text):
        if not match[1].startswith("."):
            yield f"the Node module {match[1]!r} is missing: {_advise(match[1], npm=True)}"
    for match in _PIP.finditer(text):
        yield f"commands cannot install packages: {_advise(match[1])}"


def _advise(package: str, *, npm: bool = False) -> str:
    key, name = ("npm", f"npm:{package}") if npm else ("packages", package)
    return f'run again with --with {name}, or add it to {key} = ["{package}"] in openskills.toml'


def _suggest_programs(text: str) -> Iterator[str]:
    missing = [match[1] for pattern in _SHELL for match in pattern.finditer(text)]
    missing += [match[1] for pattern in _START for match in pattern.finditer(text) if match[1] in PROGRAMS]
    for name in dict.fromkeys(missing):
        debian = f" (Debian: apt-get install {PROGRAMS[name]})" if name in PROGRAMS else ""
        yield f"the program {name!r} is not installed where commands run{debian}; see openskills doctor --skill"


def _suggest_network(text: str, notes: Sequence[str], network: Sequence[str]) -> Iterator[str]:
    refused = [match[1] for note in notes for match in _ALLOW.finditer(note)]
    yield from (f"the host {host} was refused: allow it with --network {host}" for host in dict.fromkeys(refused))
    if refused or network:
        return
    for pattern in _UNRESOLVED:
        if match := pattern.search(text):
            host = match[1] if pattern.groups else "HOST"
            yield f"commands have no network access: allow a host with --network {host}"
            return


@dataclass(frozen=True, slots=True)
class SkillNeeds:
    """What a skill needs, as far as its files say. `imports` and `programs` map names to the first file with them."""

    declared: DeclaredPackages
    imports: Mapping[str, str]
    programs: Mapping[str, str]


def find_needs(skill: Skill) -> SkillNeeds:
    """Read the files of a skill to find out what it needs. Blocking."""
    files = {SKILL_FILE: skill.body().encode()}
    for resource in skill.resources():
        if resource.size <= _MAX_SCANNED and resource.path.endswith(_SCANNED):
            try:
                files[resource.path] = skill.read(resource.path)
            except (SkillError, OSError):
                # Gone or not trusted: commands cannot use it either.
                continue
    try:
        declared = find_declared_packages(files)
    except InvalidArgument as error:
        declared = DeclaredPackages(warnings=(str(error),))
    return SkillNeeds(declared, find_imports(files), find_programs(files))


def find_programs(files: Mapping[str, bytes]) -> dict[str, str]:
    """The known programs that a skill's texts and scripts call, each with the first file that does."""
    found: dict[str, str] = {}
    for name, data in sorted(files.items()):
        text = data[:_MAX_SCANNED].decode("utf-8", "replace")
        suffix = name.rpartition(".")[2].lower()
        if suffix == "md":
            blocks = [match[1] for match in _FENCE.finditer(text)]
            blocks += [match[1] for match in _INLINE.finditer(_FENCE.sub("", text)) if " " in match[1]]
            words = [match[1] for block in blocks for match in _COMMAND.finditer(block)]
        elif suffix in ("sh", "bash"):
            words = [match[1] for match in _COMMAND.finditer(text)]
        elif suffix in ("py", "js", "mjs", "cjs", "ts"):
            words = [match[1] for match in _CALL.finditer(text)]
        else:
            continue
        for word in words:
            if word in PROGRAMS:
                found.setdefault(word, name)
    return found
