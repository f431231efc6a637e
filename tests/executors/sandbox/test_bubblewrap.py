import pytest

from openskills.errors import InvalidArgument
from openskills.executors.sandbox.bubblewrap import (
    DASH,
    ETC,
    OPTIONS,
    Held,
    System,
    command_line,
    command_options,
    encoded,
    system_options,
    words,
)

SYSTEM = System(("/usr", "/opt/python"), (("usr/bin", "/bin"),))
NO_LIMITS = Held()


def line(*argv: str, uid: int | None = None, held: Held = NO_LIMITS, terminal: bool = False) -> list[str]:
    return command_line(
        bwrap="/usr/bin/bwrap",
        setpriv="/usr/bin/setpriv",
        uid=uid,
        marker="run-1",
        held=held,
        argv=argv,
        terminal=terminal,
    )


def test_the_system_is_shown_read_only_and_in_parts() -> None:
    options = system_options(SYSTEM)
    assert "--bind" not in options
    triples = list(zip(options, options[1:], options[2:], strict=False))
    assert ("--ro-bind", "/usr", "/usr") in triples
    assert ("--ro-bind", "/proc/sys", "/proc/sys") in triples
    assert ("--ro-bind", "/", "/") not in triples
    assert ("--ro-bind-fd", str(ETC), "/etc") in triples
    assert ("--symlink", "usr/bin", "/bin") in triples
    assert ("--cap-drop", "ALL", "--hostname") in triples
    assert {"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--clearenv"} <= set(options)


def test_etc_is_in_place_before_what_is_shown_below_it() -> None:
    options = system_options(System(("/usr", "/etc/tool"), ()))
    assert options.index("/etc") < options.index("/etc/tool")


def test_every_file_system_in_memory_has_a_size() -> None:
    options = system_options(SYSTEM)
    for place, option in enumerate(options):
        if option == "--tmpfs":
            assert "--size" in options[place - 4 : place]


def test_nothing_is_writable_after_the_workspace_is_in_place() -> None:
    options = command_options(env={"A": "b"}, cwd="work", venv_of="demo", terminal=False)
    assert options.index("--remount-ro") > options.index("--bind-fd")
    assert options[options.index("--chdir") + 1] == "/workspace/work"
    assert options[-3:] == ["--setenv", "A", "b"]
    assert "/workspace/skills/demo/.venv" in options


def test_only_a_command_with_pipes_gets_a_session_of_its_own() -> None:
    assert "--new-session" in command_options(env={}, cwd=".", venv_of=None, terminal=False)
    assert "--new-session" not in command_options(env={}, cwd=".", venv_of=None, terminal=True)


def test_root_becomes_somebody_else_before_anything_else() -> None:
    assert line("true", uid=61000)[:6] == ["/usr/bin/setpriv", "--reuid", "61000", "--regid", "61000", "--clear-groups"]
    assert line("true")[:3] == ["/usr/bin/bwrap", "--args", str(OPTIONS)]


def test_dash_says_the_same_limits_in_its_own_words() -> None:
    words = command_line(
        bwrap="bwrap",
        setpriv="setpriv",
        uid=None,
        marker="m",
        held=Held(processes=9, file_kib=8, open_files=7),
        argv=("-x",),
        terminal=False,
        shell=DASH,
    )
    (script,) = [word for word in words if word.startswith("ulimit")]
    assert script.startswith("ulimit -c 0 && ulimit -p 9 && ulimit -n 7 && ulimit -f 16 && ")
    assert script.endswith('exec  "$@"')
    assert words[-1] == "-x"


def test_limits_are_set_by_the_first_program_inside() -> None:
    (script,) = [word for word in line("true", held=Held(processes=9, file_kib=8)) if word.startswith("ulimit")]
    assert script.startswith("ulimit -c 0 && ulimit -u 9 && ulimit -f 8 && ")


def test_a_command_on_a_terminal_hears_its_keys_again() -> None:
    assert line("vi", terminal=True)[-3:] == ["--default-signal=INT,QUIT,TSTP", "--", "vi"]
    assert line("vi")[-2:] == ["sh", "vi"]


@pytest.mark.parametrize(("text", "problem"), [("a" + chr(0) + "b", "NUL"), (chr(0xD800), "half a character")])
def test_text_that_is_no_argument_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        encoded(["--setenv", "X", text])
    with pytest.raises(InvalidArgument, match=problem):
        line("echo", text)


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    assert words(["caf" + chr(0xDCE9)]) == [b"caf" + bytes([0xE9])]
    assert encoded(["--setenv", "A", "b"]).split(bytes(1)) == [b"--setenv", b"A", b"b", b""]
