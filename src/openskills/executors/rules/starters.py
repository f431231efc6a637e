"""Well-known programs that start others, or run code, because their arguments say so: a table. Pure.

It names what people and models reach for, not everything that there is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Starting:
    """By which arguments a program starts something.

    `letters` are options of one letter, which may stand together with others (`-ne`), `names` longer ones, written
    with one dash or two. `valued` are other letters that a value follows, in the same word or in the next; `attached`
    those that have one in the same word only. `orders` are words that are no options (`config` in `git config`), each
    with the options that matter after it; where there are none, the word itself starts something.
    """

    letters: str = ""
    names: tuple[str, ...] = ()
    valued: str = ""
    attached: str = ""
    orders: Mapping[str, "Starting | None"] = field(default_factory=dict[str, "Starting | None"])


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What takes its code from its arguments (`code`), from the file that comes first, or from its input.

    `file` are letters whose value is the script. `about` are words that only have it say something about itself;
    `modules` are those of Python's `-m` that take code.
    """

    code: Starting
    file: str = ""
    about: tuple[str, ...] = ()
    modules: frozenset[str] = frozenset()


def _each(names: str, value: T) -> dict[str, T]:
    return dict.fromkeys(names.split(), value)


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _only(orders: str) -> Starting:
    return Starting(orders=_each(orders, None))


INTERPRETERS: Mapping[str, Interpreter] = MappingProxyType(
    {
        **_each(
            "python pypy micropython graalpy",
            Interpreter(
                Starting("ci", valued="WXm"),
                file="m",
                about=("-V", "-VV", "-?"),
                modules=_set("code timeit pdb asyncio idlelib IPython bpython ptpython xonsh"),
            ),
        ),
        "perl": Interpreter(Starting("eEMmd", valued="I", attached="DFVix"), about=("-v",)),
        "raku": Interpreter(Starting("eM", valued="I"), about=("-v",)),
        **_each("ruby jruby", Interpreter(Starting("e", valued="CEIXr", attached="FKTWix"), about=("-v",))),
        **_each(
            "node nodejs tsx ts-node",
            Interpreter(
                Starting(
                    "epi", ("eval", "print", "interactive", "import", "loader", "experimental-loader", "run"), "rC"
                ),
                about=("-v",),
            ),
        ),
        "bun": Interpreter(
            Starting("ep", ("eval", "print"), "r", orders=_each("x exec run repl create", None)), about=("-v",)
        ),
        **_each("coffee qjs gjs d8 jrunscript", Interpreter(Starting("ceip", ("eval", "exec"), "rI"))),
        "php": Interpreter(
            Starting(
                "rBREFaS",
                ("run", "process-begin", "process-code", "process-end", "process-file", "interactive", "server"),
                "cdfgtz",
            ),
            file="f",
            about=("-v", "-i", "-m"),
        ),
        **_each("lua luajit texlua", Interpreter(Starting("ei", valued="l", attached="Obj"), about=("-v",))),
        **_each("tclsh wish jimsh", Interpreter(Starting("e"))),
        "rscript": Interpreter(Starting("e")),
        "julia": Interpreter(Starting("eEi", ("eval", "print"), "CHJLpt", "Og"), about=("-v",)),
        "octave": Interpreter(Starting("", ("eval", "exec-path"), "p")),
        "gnuplot": Interpreter(Starting("ec"), about=("-V",)),
        "guile": Interpreter(Starting("c", valued="Llesx"), file="s", about=("-v",)),
        "racket": Interpreter(Starting("ei", valued="AGISXflprtu"), file="frtu", about=("-v",)),
        **_each("csi gosh bb clojure clj", Interpreter(Starting("eEpPMX", ("eval", "print")))),
        **_each("sbcl clisp ecl", Interpreter(Starting("x", ("eval", "shell")))),
        **_each("groovy scala kotlin ocaml ghc elixir", Interpreter(Starting("e", ("eval", "rpc-eval"), "cr"))),
        **_each("runghc runhaskell escript osascript", Interpreter(Starting("e"))),
        "swipl": Interpreter(Starting("gt", ("goal",), "fs")),
    }
)

AWKS = _set("awk gawk mawk nawk original-awk bwk goawk")
"""Their first argument is a program that can start others, unless `-f` names a file."""
AWK = Starting(valued="Ffv")
SED = "sed"
SED_OPTIONS = Starting(
    names=(
        *("-n", "-E", "-r", "-s", "-u", "-z", "-i", "-b", "-e", "-f", "-l", "--expression", "--file", "--in-place"),
        *("--quiet", "--silent", "--regexp-extended", "--separate", "--unbuffered", "--null-data", "--posix"),
    ),
    valued="efl",
    attached="i",
)
"""All that sed is known by; what makes it start something is in its script."""

LANGUAGES = _set(
    # Editors and pagers: an order in their own language, or a key, starts anything.
    "vi vim view ex nvim gvim rvim vimdiff ed emacs emacsclient nano pico joe micro less more most man mc "
    "ipython bpython ptpython irb pry iex erl ghci jshell r matlab maxima sage m4 gm4 dc socat "
    "psql mysql mariadb ftp lftp sftp telnet mail mailx mutt lynx w3m "
    "docker podman nerdctl kubectl ctr crictl lxc just rake"
)
"""Programs whose own language starts others, wherever they get it from."""

_FETCHED = Starting("", ("upload-pack", "receive-pack", "exec", "remote"))
_PACKAGES = _only("exec x run run-script dlx start test explore init create shell tool node")

STARTERS: Mapping[str, Starting] = MappingProxyType(
    {
        "find": Starting("", ("exec", "execdir", "ok", "okdir")),
        **_each("fd fdfind", Starting("xX", ("exec", "exec-batch"), "EScdejot")),
        "git": Starting(
            "c",
            ("config-env", "exec-path"),
            "C",
            orders={
                **_each("config bisect submodule difftool mergetool filter-branch daemon shell instaweb", None),
                **_each("send-email for-each-repo hook maintenance", None),
                "rebase": Starting("x", ("exec",), "CXs"),
                "grep": Starting("O", ("open-files-in-pager",), "ABCefm"),
                "clone": Starting("uc", ("upload-pack", "config", "template"), "bjo"),
                "init": Starting("", ("template",)),
                **_each("fetch pull push ls-remote fetch-pack send-pack archive", _FETCHED),
            },
        ),
        "hg": Starting("", ("config",)),
        "svn": Starting("", ("diff-cmd", "diff3-cmd", "editor-cmd", "config-option", "config-dir")),
        "tar": Starting(
            "IF",
            (
                *("to-command", "checkpoint-action", "use-compress-program", "info-script", "new-volume-script"),
                *("rsh-command", "rmt-command"),
            ),
            "CHKLNTVXbfg",
        ),
        "bsdtar": Starting("", ("use-compress-program",), "CTXbf"),
        "cpio": Starting("", ("rsh-command",)),
        "zip": Starting("", ("TT", "unzip-command")),
        "rsync": Starting("e", ("rsh", "rsync-path"), "BMTf"),
        "scp": Starting("So", valued="FJPcil"),
        "sort": Starting("", ("compress-program",)),
        "split": Starting("", ("filter",)),
        "install": Starting("", ("strip-program",)),
        "wget": Starting("e", ("execute", "use-askpass"), "ADIOPQRTUXaiotw"),
        **_each("nc ncat netcat", Starting("ec", ("exec", "sh-exec", "lua-exec"), "HIMOPTVXgimopqswx")),
        "tcpdump": Starting("z", valued="BCDEFGMTVWcijrswy"),
        "pandoc": Starting("FL", ("filter", "lua-filter", "pdf-engine"), "ABHMTVfcdortw"),
        **_each(
            "tex latex etex pdftex pdflatex xetex xelatex luatex lualatex latexmk",
            Starting("e", ("shell-escape", "enable-write18", "pdflatex", "lualatex", "xelatex", "latex")),
        ),
        "gs": Starting("c", ("dNOSAFER",)),
        "exiftool": Starting("", ("if", "api", "config")),
        **_each("gcc g++ cc c++ clang clang++ gfortran", Starting("", ("wrapper", "fplugin"))),
        **_each("make gmake", Starting("E", ("eval",), "CIWfo")),
        "cmake": Starting("EP", valued="BCDGSTU"),
        "go": Starting(
            orders={
                **_each("generate tool", None),
                **_each("run test build install vet", Starting("", ("exec", "toolexec", "vettool"))),
            }
        ),
        "cargo": Starting("", ("config",)),
        "ip": _only("netns vrf"),
        "deno": _only("eval repl task x"),
        **_each("uv npm pnpm yarn poetry pipenv pdm hatch rye conda mamba micromamba bundle", _PACKAGES),
    }
)

# python3.11, perl5.36-x86_64-linux-gnu, vim.basic, nc.openbsd
_STEM = re.compile(r"([a-z][a-z_+-]*?)(?:[-.]?\d[\d.]*(?:-.*)?|\.(?:basic|tiny|nox|gtk3?|openbsd|traditional))")


def names_of(name: str) -> tuple[str, ...]:
    """How the table may call a program: by its name, and by that without a version or a variant."""
    folded = name.casefold()
    stem = _STEM.fullmatch(folded)
    return (folded, stem[1]) if stem else (folded,)
