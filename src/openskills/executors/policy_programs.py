"""Programs that run other commands or code from their arguments, for the command policy. Pure.

The tables cover programs in common use. They are not complete and do not stop anyone who wants to get around them.
Arguments are searched for words and not parsed: what looks like an option that starts something counts as one.
"""

import re
from collections.abc import Callable, Iterable, Sequence


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MULTICALL_PROGRAMS = _names("busybox toybox coreutils uutils sbase-box ubase-box")
"""Multi-call binaries: the name that they are called by, or an argument, selects the program."""

WRAPPERS = MULTICALL_PROGRAMS | _names(
    "sh bash rbash dash ash hush zsh rzsh ksh mksh lksh pdksh oksh yash posh fish csh tcsh pwsh nu elvish xonsh osh "
    "ysh static-sh env xargs parallel sem nohup timeout time watch script expect entr sudo su doas runuser pkexec "
    "setpriv capsh gosu su-exec run0 sg newgrp chroot unshare nsenter bwrap firejail proot fakeroot fakechroot "
    "systemd-nspawn nice ionice chrt taskset numactl prlimit choom uclampset coresched setsid setarch linux32 "
    "linux64 i386 x86_64 uname26 stdbuf unbuffer flock daemonize cpulimit faketime strace ltrace gdb lldb valgrind "
    "perf catchsegv hyperfine chronic tini dumb-init chpst softlimit setuidgid envdir direnv rlwrap run-parts "
    "xvfb-run dbus-run-session dbus-launch ssh-agent systemd-run start-stop-daemon ssh sshpass at batch crontab "
    "tmux screen torsocks proxychains proxychains4 pipx uvx npx bunx command exec eval builtin source . "
    "aa-exec runcon cgexec dtach abduco torify tsocks trickle eatmydata s6-setuidgid arch-chroot reptyr multitime"
)
"""Shells, and programs that run the command in their arguments."""

LANGUAGES = _names(
    "vi vim view ex nvim gvim rvim vimdiff ed emacs emacsclient nano pico joe micro less more most man mc ipython "
    "bpython ptpython irb pry iex erl ghci jshell r matlab maxima sage m4 gm4 dc socat psql mysql mariadb ftp lftp "
    "sftp telnet mail mailx mutt lynx w3m docker podman nerdctl kubectl ctr crictl lxc just rake"
)
"""Editors, pagers and other programs in whose own language or with a key anything can be started."""

FILTERS = _names("awk gawk mawk nawk original-awk bwk goawk sed gsed")
"""The first argument is a program, which can start others, unless `-f` names a file."""

_PLAIN_OPTIONS = {"python": "bBEIOPqsSu", "pypy": "bBEIOPqsSu", "perl": "wWtT", "ruby": "wW"}
"""Options of interpreters before the script that neither take a value nor run anything."""

INTERPRETERS = _names(
    "python pypy micropython graalpy perl raku ruby jruby node nodejs tsx ts-node bun coffee qjs gjs d8 jrunscript "
    "php lua luajit texlua tclsh wish jimsh rscript julia octave gnuplot guile racket csi gosh bb clojure clj sbcl "
    "clisp ecl groovy scala kotlin ocaml ghc elixir runghc runhaskell escript osascript swipl"
)
"""Programs that take their code from options, from the first file, or from their input."""

_CODE_MODULES = _names("code timeit pdb asyncio idlelib IPython bpython ptpython xonsh")
"""Modules for Python's `-m` that take code."""

_PACKAGE_MANAGER = "exec x run run-script dlx start test explore init create shell tool node"
_LATEX = "-e --shell-escape --enable-write18 --pdflatex --lualatex --xelatex --latex"
_TABLE = {
    "find": "--exec --execdir --ok --okdir",
    "fd fdfind": "-x -X --exec --exec-batch",
    "git": "-c -x -O -u --config-env --exec-path --exec --upload-pack --receive-pack --remote --template --config "
    "--open-files-in-pager config bisect submodule difftool mergetool filter-branch daemon shell instaweb send-email "
    "for-each-repo hook maintenance",
    "hg": "--config",
    "svn": "--diff-cmd --diff3-cmd --editor-cmd --config-option --config-dir",
    "tar": "-I -F --to-command --checkpoint-action --use-compress-program --info-script --new-volume-script "
    "--rsh-command --rmt-command",
    "bsdtar": "--use-compress-program",
    "cpio": "--rsh-command",
    "zip": "--TT --unzip-command",
    "rsync": "-e --rsh --rsync-path",
    "scp": "-S -o",
    "sort": "--compress-program",
    "split": "--filter",
    "install": "--strip-program",
    "wget": "-e --execute --use-askpass",
    "nc ncat netcat": "-e -c --exec --sh-exec --lua-exec",
    "tcpdump": "-z",
    "pandoc": "-F -L --filter --lua-filter --pdf-engine",
    "tex latex etex pdftex pdflatex xetex xelatex luatex lualatex latexmk": _LATEX,
    "gs": "-c --dNOSAFER",
    "exiftool": "--if --api --config",
    "gcc g++ cc c++ clang clang++ gfortran": "--wrapper --fplugin",
    "make gmake": "-E --eval",
    "cmake": "-E -P",
    "go": "--exec --toolexec --vettool generate tool",
    "cargo": "--config",
    "ip": "netns vrf",
    "bun": "x exec run repl create",
    "deno": "eval repl task x",
    "uv npm pnpm yarn poetry pipenv pdm hatch rye conda mamba micromamba bundle": _PACKAGE_MANAGER,
}
STARTING_WORDS = {name: words.split() for names, words in _TABLE.items() for name in names.split()}
"""Options and subcommands by which other programs start something."""

FROM_INPUT = "code from its input"
INLINE = "code in its arguments"
ANYTHING = "any arguments"

_INPUTS = ("/dev/stdin", "/dev/fd/", "/proc/")
_ABOUT = ("--version", "--help")
_SHORT_ABOUT = {"python": ("-V", "-VV", "-h"), **dict.fromkeys(_names("perl raku ruby node nodejs php lua"), ("-v",))}
_PLAIN_FILTER_OPTIONS = {"sed": re.compile(r"-[nErsuz]+|-i[.\w]*"), "awk": re.compile(r"-[Fv].+")}
_VERSION = re.compile(r"[-.]?\d[\d.]*$")
# python3.11, perl5.36-x86_64-linux-gnu, vim.basic, nc.openbsd
_STEM = re.compile(r"([a-z][a-z_+-]*?)(?:[-.]?\d[\d.]*(?:-.*)?|\.(?:basic|tiny|nox|gtk3?|openbsd|traditional))")
_LETTERS = re.compile(r"-[A-Za-z0-9]{1,8}")

SkillFilePredicate = Callable[[str], bool]
"""Whether a path in an argument is a file of the skill."""


def is_wrapper(name: str) -> bool:
    """Whether a program with this name (no directory, perhaps with a version) runs the command in its arguments."""
    folded = name.casefold()
    # The dynamic loader runs the program in its argument.
    is_loader = folded.startswith(("ld-linux", "ld-musl", "ld.so", "ld64.so"))
    return is_loader or folded in WRAPPERS or _VERSION.sub("", folded) in WRAPPERS


def is_multicall(name: str) -> bool:
    """Whether a program with this name is a multi-call binary."""
    return name.casefold() in MULTICALL_PROGRAMS


def has_language(name: str) -> bool:
    """Whether a program with this name can start anything from a file that is not called a script."""
    return any(one in LANGUAGES or one in FILTERS for one in list_names(name))


def list_names(name: str) -> tuple[str, ...]:
    """The names of a program in the tables: its name, and the name without version or variant."""
    folded = name.casefold()
    stem = _STEM.fullmatch(folded)
    return (folded, stem[1]) if stem else (folded,)


def find_inline_code(names: Iterable[str], arguments: Sequence[str], own: SkillFilePredicate) -> str | None:
    """The argument that makes a program with one of these names run something else; None if none does."""
    for name in dict.fromkeys(known for one in names for known in list_names(one)):
        if name in LANGUAGES:
            return ANYTHING
        if name == "sqlite3" and (not arguments or arguments[0] not in ("-safe", "--safe")):
            return "no -safe"
        if name in FILTERS and not _reads_own_program(name, arguments, own):
            return INLINE
        if name in INTERPRETERS and (found := _find_in_interpreter(name, arguments)) is not None:
            return found
        for place, word in enumerate(arguments if name in STARTING_WORDS else ()):
            # The old syntax of tar: letters without a dash.
            option = f"-{word}" if name == "tar" and place == 0 and not word.startswith("-") else word
            if any(_is_option(option, starting) for starting in STARTING_WORDS[name]):
                return word
    return None


def _is_option(word: str, starting: str) -> bool:
    """Whether a word is this option or subcommand, an abbreviation of it, or letters with it among them."""
    if starting.startswith("--"):
        name = word.lstrip("-").partition("=")[0]
        if word.startswith("--"):
            return len(name) > 1 and starting[2:].startswith(name)
        return word.startswith("-") and name == starting[2:]
    if starting.startswith("-"):
        return word.startswith(starting) or (_LETTERS.fullmatch(word) is not None and starting[1] in word)
    return word == starting


def _find_in_interpreter(name: str, arguments: Sequence[str]) -> str | None:
    """Only a script, after options that are known to be harmless, and modules of Python are let through."""
    if len(arguments) == 1 and arguments[0] in (*_ABOUT, *_SHORT_ABOUT.get(name, ())):
        return None
    plain = _PLAIN_OPTIONS.get(name, "")
    for place, word in enumerate(arguments):
        if not word.startswith("-") or word == "-":
            return FROM_INPUT if word == "-" or word.startswith(_INPUTS) else None
        if word.startswith("-m") and name in ("python", "pypy"):
            module = word[2:] or "".join(arguments[place + 1 : place + 2])
            return f"-m {module}" if not module or module.partition(".")[0] in _CODE_MODULES else None
        if not plain or word[1:].strip(plain):
            return word
    return FROM_INPUT


def _reads_own_program(name: str, arguments: Sequence[str], own: SkillFilePredicate) -> bool:
    """Whether awk or sed takes its program only from files of the skill, with harmless options."""
    kind = "sed" if "sed" in name else "awk"
    if (kind == "sed" and arguments and arguments[0] == "--sandbox") or (
        len(arguments) == 1 and arguments[0] in _ABOUT
    ):
        return True
    files: list[str] = []
    words = iter(arguments)
    for word in words:
        if word.startswith("-f"):
            files.append(word[2:] or next(words, ""))
        elif kind == "awk" and word in ("-F", "-v"):
            next(words, "")
        elif not word.startswith("-") or word == "-":
            # The first word that is not an option would be the program.
            if not files:
                return False
        elif not _PLAIN_FILTER_OPTIONS[kind].fullmatch(word):
            return False
    return bool(files) and all(map(own, files))
