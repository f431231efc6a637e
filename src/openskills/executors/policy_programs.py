"""Programs that start other programs or run code depending on their arguments, for the command policy. Pure.

The tables cover programs in common use and their documented options. They are not complete and do not stop anyone who
wants to get around them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExecOptions:
    """Arguments by which a program starts another one.

    `letters` are one-letter options, which can be combined (`-ne`); `names` are long options, with one dash or two.
    `valued` are other letters that take a value, in the same word or the next; `attached` those with a value in the
    same word only. `subcommands` map words (`config` in `git config`) to the options that matter after them; with None,
    the subcommand itself starts something.
    """

    letters: str = ""
    names: tuple[str, ...] = ()
    valued: str = ""
    attached: str = ""
    subcommands: Mapping[str, "ExecOptions | None"] = field(default_factory=dict[str, "ExecOptions | None"])


@dataclass(frozen=True, slots=True)
class InterpreterOptions:
    """A program that takes its code from its arguments (`code`), from the first file, or from its input.

    `file` are letters whose value is the script. `about` are words that only print information about the program.
    `modules` are modules for Python's `-m` that take code.
    """

    code: ExecOptions
    file: str = ""
    about: tuple[str, ...] = ()
    modules: frozenset[str] = frozenset()


def _map_names(names: str, value: T) -> dict[str, T]:
    return dict.fromkeys(names.split(), value)


def _parse_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _only_subcommands(names: str) -> ExecOptions:
    return ExecOptions(subcommands=_map_names(names, None))


INTERPRETERS: Mapping[str, InterpreterOptions] = MappingProxyType(
    {
        **_map_names(
            "python pypy micropython graalpy",
            InterpreterOptions(
                ExecOptions("ci", valued="WXm"),
                file="m",
                about=("-V", "-VV", "-?"),
                modules=_parse_names("code timeit pdb asyncio idlelib IPython bpython ptpython xonsh"),
            ),
        ),
        "perl": InterpreterOptions(ExecOptions("eEMmd", valued="I", attached="DFVix"), about=("-v",)),
        "raku": InterpreterOptions(ExecOptions("eM", valued="I"), about=("-v",)),
        **_map_names(
            "ruby jruby", InterpreterOptions(ExecOptions("e", valued="CEIXr", attached="FKTWix"), about=("-v",))
        ),
        **_map_names(
            "node nodejs tsx ts-node",
            InterpreterOptions(
                ExecOptions(
                    "epi", ("eval", "print", "interactive", "import", "loader", "experimental-loader", "run"), "rC"
                ),
                about=("-v",),
            ),
        ),
        "bun": InterpreterOptions(
            ExecOptions("ep", ("eval", "print"), "r", subcommands=_map_names("x exec run repl create", None)),
            about=("-v",),
        ),
        **_map_names("coffee qjs gjs d8 jrunscript", InterpreterOptions(ExecOptions("ceip", ("eval", "exec"), "rI"))),
        "php": InterpreterOptions(
            ExecOptions(
                "rBREFaS",
                ("run", "process-begin", "process-code", "process-end", "process-file", "interactive", "server"),
                "cdfgtz",
            ),
            file="f",
            about=("-v", "-i", "-m"),
        ),
        **_map_names(
            "lua luajit texlua", InterpreterOptions(ExecOptions("ei", valued="l", attached="Obj"), about=("-v",))
        ),
        **_map_names("tclsh wish jimsh", InterpreterOptions(ExecOptions("e"))),
        "rscript": InterpreterOptions(ExecOptions("e")),
        "julia": InterpreterOptions(ExecOptions("eEi", ("eval", "print"), "CHJLpt", "Og"), about=("-v",)),
        "octave": InterpreterOptions(ExecOptions("", ("eval", "exec-path"), "p")),
        "gnuplot": InterpreterOptions(ExecOptions("ec"), about=("-V",)),
        "guile": InterpreterOptions(ExecOptions("c", valued="Llesx"), file="s", about=("-v",)),
        "racket": InterpreterOptions(ExecOptions("ei", valued="AGISXflprtu"), file="frtu", about=("-v",)),
        **_map_names("csi gosh bb clojure clj", InterpreterOptions(ExecOptions("eEpPMX", ("eval", "print")))),
        **_map_names("sbcl clisp ecl", InterpreterOptions(ExecOptions("x", ("eval", "shell")))),
        **_map_names(
            "groovy scala kotlin ocaml ghc elixir", InterpreterOptions(ExecOptions("e", ("eval", "rpc-eval"), "cr"))
        ),
        **_map_names("runghc runhaskell escript osascript", InterpreterOptions(ExecOptions("e"))),
        "swipl": InterpreterOptions(ExecOptions("gt", ("goal",), "fs")),
    }
)

AWKS = _parse_names("awk gawk mawk nawk original-awk bwk goawk")
"""The first argument is a program, which can start others, unless `-f` names a file."""
AWK = ExecOptions(valued="Ffv")
SED = "sed"
SED_OPTIONS = ExecOptions(
    names=(
        *("-n", "-E", "-r", "-s", "-u", "-z", "-i", "-b", "-e", "-f", "-l", "--expression", "--file", "--in-place"),
        *("--quiet", "--silent", "--regexp-extended", "--separate", "--unbuffered", "--null-data", "--posix"),
    ),
    valued="efl",
    attached="i",
)
"""All known options of sed; only its script can start something."""

LANGUAGES = _parse_names(
    # Editors and pagers: a command in their own language, or a key, can start anything.
    "vi vim view ex nvim gvim rvim vimdiff ed emacs emacsclient nano pico joe micro less more most man mc "
    "ipython bpython ptpython irb pry iex erl ghci jshell r matlab maxima sage m4 gm4 dc socat "
    "psql mysql mariadb ftp lftp sftp telnet mail mailx mutt lynx w3m "
    "docker podman nerdctl kubectl ctr crictl lxc just rake"
)
"""Programs whose own language can start others."""

_REMOTE_OPTIONS = ExecOptions("", ("upload-pack", "receive-pack", "exec", "remote"))
_PACKAGE_MANAGER_OPTIONS = _only_subcommands("exec x run run-script dlx start test explore init create shell tool node")

EXEC_PROGRAMS: Mapping[str, ExecOptions] = MappingProxyType(
    {
        "find": ExecOptions("", ("exec", "execdir", "ok", "okdir")),
        **_map_names("fd fdfind", ExecOptions("xX", ("exec", "exec-batch"), "EScdejot")),
        "git": ExecOptions(
            "c",
            ("config-env", "exec-path"),
            "C",
            subcommands={
                **_map_names("config bisect submodule difftool mergetool filter-branch daemon shell instaweb", None),
                **_map_names("send-email for-each-repo hook maintenance", None),
                "rebase": ExecOptions("x", ("exec",), "CXs"),
                "grep": ExecOptions("O", ("open-files-in-pager",), "ABCefm"),
                "clone": ExecOptions("uc", ("upload-pack", "config", "template"), "bjo"),
                "init": ExecOptions("", ("template",)),
                **_map_names("fetch pull push ls-remote fetch-pack send-pack archive", _REMOTE_OPTIONS),
            },
        ),
        "hg": ExecOptions("", ("config",)),
        "svn": ExecOptions("", ("diff-cmd", "diff3-cmd", "editor-cmd", "config-option", "config-dir")),
        "tar": ExecOptions(
            "IF",
            (
                *("to-command", "checkpoint-action", "use-compress-program", "info-script", "new-volume-script"),
                *("rsh-command", "rmt-command"),
            ),
            "CHKLNTVXbfg",
        ),
        "bsdtar": ExecOptions("", ("use-compress-program",), "CTXbf"),
        "cpio": ExecOptions("", ("rsh-command",)),
        "zip": ExecOptions("", ("TT", "unzip-command")),
        "rsync": ExecOptions("e", ("rsh", "rsync-path"), "BMTf"),
        "scp": ExecOptions("So", valued="FJPcil"),
        "sort": ExecOptions("", ("compress-program",)),
        "split": ExecOptions("", ("filter",)),
        "install": ExecOptions("", ("strip-program",)),
        "wget": ExecOptions("e", ("execute", "use-askpass"), "ADIOPQRTUXaiotw"),
        **_map_names("nc ncat netcat", ExecOptions("ec", ("exec", "sh-exec", "lua-exec"), "HIMOPTVXgimopqswx")),
        "tcpdump": ExecOptions("z", valued="BCDEFGMTVWcijrswy"),
        "pandoc": ExecOptions("FL", ("filter", "lua-filter", "pdf-engine"), "ABHMTVfcdortw"),
        **_map_names(
            "tex latex etex pdftex pdflatex xetex xelatex luatex lualatex latexmk",
            ExecOptions("e", ("shell-escape", "enable-write18", "pdflatex", "lualatex", "xelatex", "latex")),
        ),
        "gs": ExecOptions("c", ("dNOSAFER",)),
        "exiftool": ExecOptions("", ("if", "api", "config")),
        **_map_names("gcc g++ cc c++ clang clang++ gfortran", ExecOptions("", ("wrapper", "fplugin"))),
        **_map_names("make gmake", ExecOptions("E", ("eval",), "CIWfo")),
        "cmake": ExecOptions("EP", valued="BCDGSTU"),
        "go": ExecOptions(
            subcommands={
                **_map_names("generate tool", None),
                **_map_names("run test build install vet", ExecOptions("", ("exec", "toolexec", "vettool"))),
            }
        ),
        "cargo": ExecOptions("", ("config",)),
        "ip": _only_subcommands("netns vrf"),
        "deno": _only_subcommands("eval repl task x"),
        **_map_names(
            "uv npm pnpm yarn poetry pipenv pdm hatch rye conda mamba micromamba bundle", _PACKAGE_MANAGER_OPTIONS
        ),
    }
)

# python3.11, perl5.36-x86_64-linux-gnu, vim.basic, nc.openbsd
_STEM = re.compile(r"([a-z][a-z_+-]*?)(?:[-.]?\d[\d.]*(?:-.*)?|\.(?:basic|tiny|nox|gtk3?|openbsd|traditional))")


def list_names(name: str) -> tuple[str, ...]:
    """The names of a program in the tables: its name, and the name without version or variant."""
    folded = name.casefold()
    stem = _STEM.fullmatch(folded)
    return (folded, stem[1]) if stem else (folded,)


_BETWEEN = re.compile(r"[\s;{}!,]*")
_NUMBER = re.compile(r"\d+(?:~\d+)?|\$|[+~]\d+")
_REGEX_FLAGS = re.compile(r"[IM]*")
_SUBSTITUTE_FLAGS = re.compile(r"[gpiImM0-9]*")
_WORD = re.compile(r"[ \t]*[^\s;}]*")
_LINE = re.compile(r"(?:\\.|[^\n\\])*\\?", re.DOTALL)
_CLASS = re.compile(r"\[([:.=]).*?\1\]", re.DOTALL)

_ALONE = frozenset("dDgGhHnNpPxz=F")
_WITH_WORD = frozenset("btTlqQL:v")
_WITH_LINE = frozenset("aicrRwW#")


class _SedSyntaxError(Exception):
    """Not a valid sed script."""


def can_sed_execute(script: str) -> bool:
    """Whether a sed script contains GNU's `e`, as a command or as a flag of `s`, or cannot be parsed."""
    # Versions differ in whether `[/]` ends an expression between slashes, so the script must be harmless in both.
    answers = [_scan_sed_script(script, brackets=brackets) for brackets in (True, False)]
    return True in answers or answers == [None, None]


def _scan_sed_script(script: str, *, brackets: bool) -> bool | None:
    """The same for one way to parse brackets; None if it cannot be parsed that way."""
    place = 0
    try:
        while (place := _skip_to_command(script, place, brackets)) < len(script):
            command, place = script[place], place + 1
            if command in _WITH_LINE:
                place = _skip_pattern(_LINE, script, place)
            elif command in _WITH_WORD:
                place = _skip_pattern(_WORD, script, place)
            elif command in ("s", "y"):
                place = _skip_substitution(script, place, brackets and command == "s")
            elif command not in _ALONE:
                return True if command == "e" else None
            if script[place : place + 1] == "e":
                return True
    except _SedSyntaxError:
        return None
    return False


def _skip_to_command(script: str, place: int, brackets: bool) -> int:
    """Skip separators and addresses up to the next command."""
    while True:
        place = _skip_pattern(_BETWEEN, script, place)
        number = _NUMBER.match(script, place)
        if number is not None:
            place = number.end()
        elif script[place : place + 1] in ("/", "\\"):
            place += script[place] == "\\"
            place = _skip_pattern(
                _REGEX_FLAGS, script, _skip_delimited(script, place + 1, _read_delimiter(script, place), brackets)
            )
        else:
            return place


def _skip_substitution(script: str, place: int, brackets: bool) -> int:
    """Skip `/from/to/` and the harmless flags."""
    mark = _read_delimiter(script, place)
    place = _skip_delimited(script, place + 1, mark, brackets)
    place = _skip_pattern(_SUBSTITUTE_FLAGS, script, _skip_delimited(script, place, mark, brackets=False))
    return _skip_pattern(_LINE, script, place) if script[place : place + 1] == "w" else place


def _read_delimiter(script: str, place: int) -> str:
    mark = script[place : place + 1]
    if mark in ("", "\\", "\n"):
        raise _SedSyntaxError
    return mark


def _skip_delimited(script: str, place: int, mark: str, brackets: bool) -> int:
    while place < len(script):
        if script[place] == mark:
            return place + 1
        if script[place] == "\\":
            place += 2
        elif brackets and script[place] == "[":
            place = _skip_bracket(script, place + 1)
        else:
            place += 1
    raise _SedSyntaxError


def _skip_bracket(script: str, place: int) -> int:
    """Skip `[a-z[:digit:]]`."""
    place += script[place : place + 1] == "^"
    place += script[place : place + 1] == "]"
    while place < len(script) and script[place] != "]":
        named = _CLASS.match(script, place)
        place = named.end() if named else place + 1
    return place + 1


def _skip_pattern(pattern: re.Pattern[str], script: str, place: int) -> int:
    match = pattern.match(script, place)
    return match.end() if match else place


FROM_INPUT = "code from its input"
INLINE = "code in its arguments"
ANYTHING = "any arguments"

_INPUTS = ("/dev/stdin", "/dev/fd/", "/proc/")
_ABOUT = ("--version", "--help", "-h")

SkillFilePredicate = Callable[[str], bool]
"""Whether a path in an argument is a file of the skill."""


def find_inline_code(names: Iterable[str], arguments: Sequence[str], own: SkillFilePredicate) -> str | None:
    """The argument that makes a program with one of these names run something else; None if none does."""
    known = dict.fromkeys(one for name in names for one in list_names(name))
    found = (_find_in_program(name, arguments, own) for name in known)
    return next((one for one in found if one is not None), None)


def has_language(name: str) -> bool:
    """Whether a program with this name can start anything from a file that is not called a script."""
    return any(one in LANGUAGES or one in AWKS or one == SED for one in list_names(name))


def _find_in_program(name: str, arguments: Sequence[str], own: SkillFilePredicate) -> str | None:
    if name in LANGUAGES:
        return ANYTHING
    if name in AWKS:
        return None if _is_own_awk_program(arguments, own) else INLINE
    if name == SED:
        return _find_in_sed(arguments, own)
    if name == "sqlite3":
        return None if {"-safe", "--safe"}.intersection(arguments) else "no -safe"
    if name in INTERPRETERS:
        return _find_in_interpreter(INTERPRETERS[name], arguments)
    if name not in EXEC_PROGRAMS:
        return None
    if name == "tar" and arguments and not arguments[0].startswith("-"):
        # The old syntax: letters without a dash, with their values in the following words.
        together = next((f"-{letter}" for letter in arguments[0] if letter in EXEC_PROGRAMS[name].letters), None)
        return together or _find_in_options(EXEC_PROGRAMS[name], arguments[1:])
    return _find_in_options(EXEC_PROGRAMS[name], arguments)


def _find_in_options(starting: ExecOptions, arguments: Sequence[str]) -> str | None:
    """Options count wherever they are, until a subcommand decides what the others mean."""
    for option, value in _parse_options(arguments, starting):
        if _is_exec_option(option, starting):
            return option
        if not option and starting.subcommands:
            if value not in starting.subcommands:
                return None
            after = starting.subcommands[value]
            return value if after is None else _find_in_options(after, arguments[arguments.index(value) + 1 :])
    return None


def _find_in_interpreter(known: InterpreterOptions, arguments: Sequence[str]) -> str | None:
    """Options count up to the script; later ones belong to the script."""
    script: str | None = None
    before = ""
    for option, value in _parse_options(arguments, known.code):
        if _is_exec_option(option, known.code):
            return option
        if not option and value in known.code.subcommands:
            return value
        if not option or option[1:] in known.file:
            script = value
            # After a long option it may be the option's value, so continue.
            if not before.startswith("--"):
                break
        before = option if not value else ""
    if script is None:
        asks = bool(arguments) and all(word in (*_ABOUT, *known.about) for word in arguments)
        return None if asks else FROM_INPUT
    if script in known.modules:
        return f"-m {script}"
    return FROM_INPUT if script == "-" or script.startswith(_INPUTS) else None


def _is_own_awk_program(arguments: Sequence[str], own: SkillFilePredicate) -> bool:
    """Whether awk reads its program only from files of the skill."""
    files: list[str] = []
    for option, value in _parse_options(arguments, AWK):
        if not option:
            break
        if option not in ("-F", "-v", "-f"):
            return option in _ABOUT
        files += [value] if option == "-f" else []
    return bool(files) and all(map(own, files))


def _find_in_sed(arguments: Sequence[str], own: SkillFilePredicate) -> str | None:
    if "--sandbox" in arguments:
        return None
    options = list(_parse_options(arguments, SED_OPTIONS))
    unknown = next((option for option, _ in options if option and option not in SED_OPTIONS.names), None)
    if unknown is not None:
        return None if unknown in _ABOUT else unknown
    files = [value for option, value in options if option in ("-f", "--file")]
    if not all(map(own, files)):
        return "-f"
    scripts = [value for option, value in options if option in ("-e", "--expression")]
    if not scripts and not files:
        scripts = [value for option, value in options if not option][:1]
    return "e" if can_sed_execute("\n".join(scripts)) else None


def _parse_options(arguments: Sequence[str], starting: ExecOptions) -> Iterator[tuple[str, str]]:
    """The options in these words, each with its value; other words have "" as the option.

    Combined letters are separate options. A long option has a value only after `=`, because it is not known whether the
    next word belongs to it.
    """
    words = iter(arguments)
    for word in words:
        if word == "--":
            yield from (("", rest) for rest in words)
        elif len(word) < 2 or word[0] != "-":
            yield "", word
        elif word[1] == "-" or word[1:].partition("=")[0] in starting.names:
            name, _, value = word.partition("=")
            yield name, value
        else:
            for letter, value in _parse_letters(word[1:], starting):
                yield f"-{letter}", next(words, "") if value is None else value


def _parse_letters(together: str, starting: ExecOptions) -> Iterator[tuple[str, str | None]]:
    """The letters of one word with their values; None if the value is the next word."""
    for place, letter in enumerate(together, 1):
        if letter in starting.letters or letter in starting.valued:
            yield letter, together[place:] or None
            return
        yield letter, together[place:] if letter in starting.attached else ""
        if letter in starting.attached:
            return


def _is_exec_option(option: str, starting: ExecOptions) -> bool:
    if option.startswith("--"):
        # Many programs accept abbreviated long options.
        return len(option) > 3 and any(name.startswith(option[2:]) for name in starting.names)
    name = option[1:]
    return name in starting.names or (len(name) == 1 and name in starting.letters)
