"""Text for a shell that needs none: the program can be started right away, which saves starting the shell. Pure."""

from collections.abc import Sequence

from openskills.executors.rules.simple_command import simple_command

_SHELL = ("bash", "-c")
# What bash does itself, without looking for a program of that name.
_BUILTINS = frozenset(
    {
        *(".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete"),
        *("compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export"),
        *("false", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout"),
        *("mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift"),
        *("shopt", "source", "suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask"),
        *("unalias", "unset", "wait", "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else"),
        *("esac", "fi", "for", "function", "if", "in", "select", "then", "time", "until", "while"),
    }
)
# These do the same as programs of the system, as long as nobody asks them for help.
_AS_PROGRAMS: dict[tuple[str, ...], tuple[str, ...]] = {("true",): ("/usr/bin/true",), ("false",): ("/usr/bin/false",)}
# An option of bash itself, or the number of a job.
_NO_PROGRAM = ("-", "+", "%")


def without_shell(argv: Sequence[str]) -> tuple[str, ...]:
    """The words with which `bash -c text` would start a program and do nothing else; nothing where it would do more.

    Whether there is such a program is not known here. When it cannot be started, it is the shell's to say so.
    """
    if len(argv) != len(_SHELL) + 1 or tuple(argv[:2]) != _SHELL:
        return ()
    found = simple_command(argv[2])
    if found is None or not all(word.literal for word in found):
        return ()
    words = tuple(word.text for word in found)
    if words[0] in _BUILTINS or words[0].startswith(_NO_PROGRAM):
        return _AS_PROGRAMS.get(words, ())
    return words
