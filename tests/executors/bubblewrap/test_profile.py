""""""

import os

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.bubblewrap.profile import (
    DASH,
    ETC,
    OPTIONS,
    SandboxLimits,
    SealedMemoryFile,
    VisibleSystem,
    build_command_line,
    build_command_options,
    build_system_options,
    create_memory_file,
    encode_options,
    encode_words,
)

SYSTEM = VisibleSystem(("/usr", "/opt/python"), (("usr/bin", "/bin"),))
NO_LIMITS = SandboxLimits()


def line(*argv: str, uid: int | None = None, held: SandboxLimits = NO_LIMITS, terminal: bool = False) -> list[str]:
    return build_command_line(
        bwrap="/usr/bin/bwrap",
        setpriv="/usr/bin/setpriv",
        uid=uid,
        marker="run-1",
        held=held,
        argv=argv,
        terminal=terminal,
    )


def test_the_system_is_shown_read_only_and_in_parts() -> None:
    options = build_system_options(SYSTEM)
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
    options = build_system_options(VisibleSystem(("/usr", "/etc/tool"), ()))
    assert options.index("/etc") < options.index("/etc/tool")


def test_every_file_system_in_memory_has_a_size() -> None:
    options = build_system_options(SYSTEM)
    for place, option in enumerate(options):
        if option == "--tmpfs":
            assert "--size" in options[place - 4 : place]


def test_nothing_is_writable_after_the_workspace_is_in_place() -> None:
    options = build_command_options(env={"A": "b"}, cwd="work", skill="demo", terminal=False)
    assert options.index("--remount-ro") > options.index("--bind-fd")
    assert options[options.index("--chdir") + 1] == "/workspace/work"
    assert options[-3:] == ["--setenv", "A", "b"]
    assert "/workspace/skills/demo" in options


def test_only_a_command_with_pipes_gets_a_session_of_its_own() -> None:
    assert "--new-session" in build_command_options(env={}, cwd=".", skill=None, terminal=False)
    assert "--new-session" not in build_command_options(env={}, cwd=".", skill=None, terminal=True)


def test_root_becomes_somebody_else_before_anything_else() -> None:
    assert line("true", uid=61000)[:6] == ["/usr/bin/setpriv", "--reuid", "61000", "--regid", "61000", "--clear-groups"]
    assert line("true")[:3] == ["/usr/bin/bwrap", "--args", str(OPTIONS)]


def test_dash_says_the_same_limits_in_its_own_words() -> None:
    words = build_command_line(
        bwrap="bwrap",
        setpriv="setpriv",
        uid=None,
        marker="m",
        held=SandboxLimits(processes=9, file_kib=8, open_files=7),
        argv=("-x",),
        terminal=False,
        shell=DASH,
    )
    (script,) = [word for word in words if word.startswith("ulimit")]
    assert script.startswith("ulimit -c 0 && ulimit -p 9 && ulimit -n 7 && ulimit -f 16 && ")
    assert script.endswith('exec  "$@"')
    assert words[-1] == "-x"


def test_limits_are_set_by_the_first_program_inside() -> None:
    (script,) = [
        word for word in line("true", held=SandboxLimits(processes=9, file_kib=8)) if word.startswith("ulimit")
    ]
    assert script.startswith("ulimit -c 0 && ulimit -u 9 && ulimit -f 8 && ")


def test_a_command_on_a_terminal_hears_its_keys_again() -> None:
    assert line("vi", terminal=True)[-3:] == ["--default-signal=INT,QUIT,TSTP", "--", "vi"]
    assert line("vi")[-2:] == ["sh", "vi"]


@pytest.mark.parametrize(("text", "problem"), [("a" + chr(0) + "b", "NUL"), (chr(0xD800), "lone surrogate")])
def test_text_that_is_not_an_argument_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        encode_options(["--setenv", "X", text])
    with pytest.raises(InvalidArgument, match=problem):
        line("echo", text)


def test_bytes_that_are_not_text_stay_as_they_are() -> None:
    assert encode_words(["caf" + chr(0xDCE9)]) == [b"caf" + bytes([0xE9])]
    assert encode_options(["--setenv", "A", "b"]).split(bytes(1)) == [b"--setenv", b"A", b"b", b""]


def test_what_is_put_into_memory_is_read_from_its_beginning_and_not_inherited() -> None:
    data = os.urandom(3_000_000)
    descriptor = create_memory_file(data)
    assert not os.get_inheritable(descriptor)
    with open(descriptor, "rb") as file:
        assert file.read() == data


def test_every_reader_of_a_sealed_file_begins_at_its_beginning_and_none_can_change_it() -> None:
    sealed = SealedMemoryFile(b"the rules")
    first, second = sealed.open_reader(), sealed.open_reader()
    sealed.close()
    sealed.close()
    assert os.read(first, 4) == b"the "
    assert os.read(second, 100) == b"the rules"
    assert not os.get_inheritable(first)
    with pytest.raises(PermissionError):
        os.close(os.open(f"/proc/self/fd/{first}", os.O_RDWR | os.O_TRUNC))
    writing = os.open(f"/proc/self/fd/{first}", os.O_RDWR)
    with pytest.raises(PermissionError):
        os.write(writing, b"x")
    for descriptor in (first, second, writing):
        os.close(descriptor)
