"""What in the arguments of a program would run something that no list of commands can judge. Pure.

`starters` has the table. It knows programs as they are meant to be used; who wants to hide something from it, can.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from openskills.executors.rules.sed_scripts import starts_something
from openskills.executors.rules.starters import (
    AWK,
    AWKS,
    INTERPRETERS,
    LANGUAGES,
    SED,
    SED_OPTIONS,
    STARTERS,
    Interpreter,
    Starting,
    names_of,
)

FROM_INPUT = "code from its input"
INLINE = "code in its arguments"
ANYTHING = "any arguments"

_INPUTS = ("/dev/stdin", "/dev/fd/", "/proc/")
_ABOUT = ("--version", "--help", "-h")

Own = Callable[[str], bool]
"""Whether a path, as an argument has it, is that of a file which the skill's author wrote."""


def runs_by_arguments(names: Iterable[str], arguments: Sequence[str], own: Own) -> str | None:
    """What makes a program of one of these names run something else, as a reader may be told; None if nothing does."""
    known = dict.fromkeys(one for name in names for one in names_of(name))
    found = (_of_one(name, arguments, own) for name in known)
    return next((one for one in found if one is not None), None)


def has_language(name: str) -> bool:
    """Whether a file that a program of this name reads can start anything, and is not what is called a script."""
    return any(one in LANGUAGES or one in AWKS or one == SED for one in names_of(name))


def _of_one(name: str, arguments: Sequence[str], own: Own) -> str | None:
    if name in LANGUAGES:
        return ANYTHING
    if name in AWKS:
        return None if _runs_own_file(arguments, own) else INLINE
    if name == SED:
        return _in_sed(arguments, own)
    if name == "sqlite3":
        return None if {"-safe", "--safe"}.intersection(arguments) else "no -safe"
    if name in INTERPRETERS:
        return _in_interpreter(INTERPRETERS[name], arguments)
    if name not in STARTERS:
        return None
    if name == "tar" and arguments and not arguments[0].startswith("-"):
        # The old way to write it: letters without a dash, and values for all of them in the words after it.
        together = next((f"-{letter}" for letter in arguments[0] if letter in STARTERS[name].letters), None)
        return together or _in_options(STARTERS[name], arguments[1:])
    return _in_options(STARTERS[name], arguments)


def _in_options(starting: Starting, arguments: Sequence[str]) -> str | None:
    """Options count wherever they stand, until a word decides what the others mean."""
    for option, value in _told(arguments, starting):
        if _starts(option, starting):
            return option
        if not option and starting.orders:
            if value not in starting.orders:
                return None
            after = starting.orders[value]
            return value if after is None else _in_options(after, arguments[arguments.index(value) + 1 :])
    return None


def _in_interpreter(known: Interpreter, arguments: Sequence[str]) -> str | None:
    """Options count until the script, whose own arguments are its own affair."""
    script: str | None = None
    before = ""
    for option, value in _told(arguments, known.code):
        if _starts(option, known.code):
            return option
        if not option and value in known.code.orders:
            return value
        if not option or option[1:] in known.file:
            script = value
            # After a long option it may be the value of that, so what follows is looked at, too.
            if not before.startswith("--"):
                break
        before = option if not value else ""
    if script is None:
        asks = bool(arguments) and all(word in (*_ABOUT, *known.about) for word in arguments)
        return None if asks else FROM_INPUT
    if script in known.modules:
        return f"-m {script}"
    return FROM_INPUT if script == "-" or script.startswith(_INPUTS) else None


def _runs_own_file(arguments: Sequence[str], own: Own) -> bool:
    """Whether awk gets its program from files of the skill, and from nowhere else."""
    files: list[str] = []
    for option, value in _told(arguments, AWK):
        if not option:
            break
        if option not in ("-F", "-v", "-f"):
            return option in _ABOUT
        files += [value] if option == "-f" else []
    return bool(files) and all(map(own, files))


def _in_sed(arguments: Sequence[str], own: Own) -> str | None:
    if "--sandbox" in arguments:
        return None
    told = list(_told(arguments, SED_OPTIONS))
    unknown = next((option for option, _ in told if option and option not in SED_OPTIONS.names), None)
    if unknown is not None:
        return None if unknown in _ABOUT else unknown
    files = [value for option, value in told if option in ("-f", "--file")]
    if not all(map(own, files)):
        return "-f"
    scripts = [value for option, value in told if option in ("-e", "--expression")]
    if not scripts and not files:
        scripts = [value for option, value in told if not option][:1]
    return "e" if starts_something("\n".join(scripts)) else None


def _told(arguments: Sequence[str], starting: Starting) -> Iterator[tuple[str, str]]:
    """The options in these words, each with its value, and words that are none, with "" for the option.

    Letters that stand together are one option each. A long option has a value only after `=`: whether the next word
    belongs to it is not known.
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
            for letter, value in _letters(word[1:], starting):
                yield f"-{letter}", next(words, "") if value is None else value


def _letters(together: str, starting: Starting) -> Iterator[tuple[str, str | None]]:
    """Letters of one word with their values; None for one whose value is the next word."""
    for place, letter in enumerate(together, 1):
        if letter in starting.letters or letter in starting.valued:
            yield letter, together[place:] or None
            return
        yield letter, together[place:] if letter in starting.attached else ""
        if letter in starting.attached:
            return


def _starts(option: str, starting: Starting) -> bool:
    if option.startswith("--"):
        # Many programs take the beginning of a long name for it.
        return len(option) > 3 and any(name.startswith(option[2:]) for name in starting.names)
    name = option[1:]
    return name in starting.names or (len(name) == 1 and name in starting.letters)
