"""The environment becomes one value, read in one place."""

from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.settings import Settings, find_variable, parse_amount, parse_seconds


def test_an_empty_environment_gives_the_documented_defaults(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path)})
    assert settings.home == tmp_path
    assert settings.cache_dir == tmp_path / ".cache" / "openskills"
    assert settings.skills_cache_dir == tmp_path / ".cache" / "openskills" / "sources"
    assert settings.config_dir == tmp_path / ".config" / "openskills"
    assert settings.skills_root is None
    assert settings.index is True
    assert settings.debug is False
    assert settings.trace_content is False


def test_an_empty_environment_gives_the_documented_defaults_of_running(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path)})
    assert settings.state_dir == tmp_path / ".local" / "state" / "openskills"
    assert (settings.executor, settings.allow_local, settings.python) == ("auto", False, None)
    assert (settings.allowed_commands, settings.denied_commands) == (None, ())
    assert (settings.host_roots, settings.container_image, settings.docker_host) == ((), None, None)
    assert settings.sandbox_uids == (52000, 55999)
    assert settings.sandbox_kept == 60
    assert (settings.workspace_ttl, settings.workspace_bytes, settings.workspace_files) == (86400, 1024**3, 50_000)


def test_everything_about_running_can_be_said() -> None:
    settings = Settings.from_env(
        {
            "OPENSKILL_STATE_DIR": "/var/lib/skills",
            "OPENSKILL_EXECUTOR": " container ",
            "OPENSKILL_ALLOW_LOCAL": "yes",
            "OPENSKILL_PYTHON": "/opt/python/bin/python3",
            "OPENSKILL_RUN_ALLOWED_COMMANDS": "python3, scripts/run.sh\tls",
            "OPENSKILL_RUN_DENIED_COMMANDS": "rm",
            "OPENSKILL_HOST_ROOTS": "/data:/srv/my files:",
            "OPENSKILL_CONTAINER_IMAGE": "skills:1",
            "DOCKER_HOST": "unix:///run/docker.sock",
            "OPENSKILL_SANDBOX_UIDS": "70000-70009",
            "OPENSKILL_SANDBOX_KEPT": "0",
            "OPENSKILL_WORKSPACE_TTL": "36h",
            "OPENSKILL_WORKSPACE_BYTES": "512M",
            "OPENSKILL_WORKSPACE_FILES": "1000",
        }
    )
    assert (settings.state_dir, settings.executor, settings.allow_local) == (Path("/var/lib/skills"), "container", True)
    assert settings.python == Path("/opt/python/bin/python3")
    assert settings.allowed_commands == ("python3", "scripts/run.sh", "ls")
    assert settings.denied_commands == ("rm",)
    assert settings.host_roots == (Path("/data"), Path("/srv/my files"))
    assert (settings.container_image, settings.docker_host) == ("skills:1", "unix:///run/docker.sock")
    assert settings.sandbox_uids == (70000, 70009)
    assert settings.sandbox_kept == 0
    assert (settings.workspace_ttl, settings.workspace_bytes, settings.workspace_files) == (129600, 512 * 1024**2, 1000)


def test_an_empty_environment_gives_the_documented_defaults_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_env({"HOME": str(tmp_path)})
    assert settings.http_base_url == "http://127.0.0.1:8000"
    assert (settings.allowed_root, settings.cli_dir) == (tmp_path / "data", tmp_path / "skills_cli")
    assert (settings.timeout_ms, settings.host_max_body) == (15_000, 1024**2)
    assert (settings.host_concurrency, settings.host_queue) == (0, 64)
    assert (settings.host_keys, settings.host_auth) == (settings.config_dir / "keys.json", "auto")
    assert (settings.host_history, settings.host_history_days) == (settings.state_dir / "host.db", 30)
    assert settings.host_history_content is False
    assert (settings.host_api_key, settings.host_http_targets) == (None, ())
    assert (settings.mcp_keys, settings.mcp_env) == ({}, ())


def test_everything_about_the_host_can_be_said(tmp_path: Path) -> None:
    settings = Settings.from_env(
        {
            "OPENSKILL_HTTP_BASE_URL": " https://skills.example.org/v1/ ",
            "OPENSKILL_ALLOWED_ROOT": str(tmp_path / "files"),
            "OPENSKILL_CLI_DIR": str(tmp_path / "cli"),
            "OPENSKILL_TIMEOUT_MS": "500",
            "OPENSKILL_HOST_MAX_BODY": "64K",
            "OPENSKILL_HOST_CONCURRENCY": "3",
            "OPENSKILL_HOST_QUEUE": "0",
            "OPENSKILL_HOST_KEYS": str(tmp_path / "k.json"),
            "OPENSKILL_HOST_AUTH": "ON",
            "OPENSKILL_HOST_HISTORY": str(tmp_path / "h.db"),
            "OPENSKILL_HOST_HISTORY_DAYS": "7",
            "OPENSKILL_HOST_HISTORY_CONTENT": "yes",
            "OPENSKILL_API_KEY": "osk_secret",
            "OPENSKILL_MCP_KEYS": "MCP.example.org=a=b other.example:8443=c",
            "OPENSKILL_MCP_ENV": "TOKEN, LANG",
            "OPENSKILL_HOST_HTTP_TARGETS": "api.example.org, 10.0.0.0/8 https://x.example/",
        }
    )
    assert settings.http_base_url == "https://skills.example.org/v1"
    assert (settings.allowed_root, settings.cli_dir) == (tmp_path / "files", tmp_path / "cli")
    assert (settings.timeout_ms, settings.host_max_body) == (500, 64 * 1024)
    assert (settings.host_concurrency, settings.host_queue, settings.host_auth) == (3, 0, "on")
    assert (settings.host_keys, settings.host_history) == (tmp_path / "k.json", tmp_path / "h.db")
    assert (settings.host_history_days, settings.host_history_content) == (7, True)
    assert settings.host_api_key == "osk_secret"
    assert settings.mcp_keys == {"mcp.example.org": "a=b", "other.example:8443": "c"}
    assert settings.mcp_env == ("TOKEN", "LANG")
    assert settings.host_http_targets == ("api.example.org", "10.0.0.0/8", "https://x.example/")


def test_a_history_that_is_off_is_no_path() -> None:
    assert Settings.from_env({"OPENSKILL_HOST_HISTORY": " Off "}).host_history is None


def test_a_user_name_in_the_address_of_the_host_is_refused_without_being_repeated() -> None:
    with pytest.raises(InvalidArgument, match="put the key into OPENSKILL_API_KEY") as raised:
        Settings.from_env({"OPENSKILL_HTTP_BASE_URL": "http://me:hunter2@there"})
    assert "hunter2" not in str(raised.value)


def test_where_the_current_directory_is_gone_the_rest_can_still_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    settings = Settings.from_env({"HOME": str(tmp_path)})
    assert not settings.cli_dir.exists()
    assert settings.home == tmp_path


def test_the_lists_of_the_documents_count_where_ours_say_nothing() -> None:
    theirs = {
        "TRPC_AGENT_SKILL_RUN_ALLOWED_COMMANDS": "ls cat",
        "TRPC_AGENT_SKILL_RUN_DENIED_COMMANDS": "rm",
    }
    settings = Settings.from_env(theirs)
    assert (settings.allowed_commands, settings.denied_commands) == (("ls", "cat"), ("rm",))
    settings = Settings.from_env({**theirs, "OPENSKILL_RUN_ALLOWED_COMMANDS": "python3"})
    assert (settings.allowed_commands, settings.denied_commands) == (("python3",), ("rm",))


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("OPENSKILL_EXECUTOR", "sand box", "invalid executor name 'sand box'; use auto"),
        ("OPENSKILL_PYTHON", "python3.12", "is not an absolute path; use one such as /usr/bin/python3"),
        ("OPENSKILL_HOST_ROOTS", "/data:relative", "'relative' is not an absolute path"),
        ("OPENSKILL_HOST_ROOTS", "/data/../etc", "is not an absolute path"),
        ("OPENSKILL_SANDBOX_UIDS", "61000", "invalid user id range '61000'; use two numbers such as 52000-55999"),
        ("OPENSKILL_SANDBOX_UIDS", "0-5", "invalid user id range"),
        ("OPENSKILL_SANDBOX_UIDS", "9-5", "invalid user id range"),
        ("OPENSKILL_SANDBOX_UIDS", "5-4294967295", "invalid user id range"),
        ("OPENSKILL_WORKSPACE_TTL", "soon", "invalid duration 'soon'; use 90s"),
        ("OPENSKILL_WORKSPACE_TTL", "-5", "invalid duration '-5'"),
        ("OPENSKILL_WORKSPACE_BYTES", "0", "invalid amount '0'"),
        ("OPENSKILL_WORKSPACE_BYTES", "1.5G", "invalid amount '1.5G'"),
        ("OPENSKILL_WORKSPACE_FILES", "many", "invalid amount 'many'; use a number such as 50000"),
        ("OPENSKILL_ALLOW_LOCAL", "perhaps", "invalid boolean 'perhaps'"),
        (
            "OPENSKILL_HTTP_BASE_URL",
            "127.0.0.1:8000",
            "invalid base URL '127.0.0.1:8000'; use one such as http://127.0.0.1:8000",
        ),
        ("OPENSKILL_HTTP_BASE_URL", "ftp://there", "invalid base URL"),
        ("OPENSKILL_HTTP_BASE_URL", "http://", "invalid base URL"),
        ("OPENSKILL_HTTP_BASE_URL", "http://there:99999", "invalid base URL"),
        ("OPENSKILL_HTTP_BASE_URL", "http://[::1", "invalid base URL"),
        ("OPENSKILL_HTTP_BASE_URL", "http://there?x=1", "invalid base URL"),
        ("OPENSKILL_HTTP_BASE_URL", "http://the re", "invalid base URL"),
        ("OPENSKILL_TIMEOUT_MS", "0", "is not an integer from 1 to 86400000"),
        ("OPENSKILL_TIMEOUT_MS", "-5", "is not an integer"),
        ("OPENSKILL_TIMEOUT_MS", "15s", "is not an integer"),
        ("OPENSKILL_TIMEOUT_MS", "٣", "is not an integer"),
        ("OPENSKILL_HOST_MAX_BODY", "0", "invalid amount '0'"),
        ("OPENSKILL_HOST_CONCURRENCY", "-1", "is not an integer from 0 to 10000"),
        ("OPENSKILL_HOST_QUEUE", "many", "is not an integer"),
        ("OPENSKILL_HOST_AUTH", "maybe", "'maybe' is not one of auto, on, off"),
        ("OPENSKILL_HOST_HISTORY_DAYS", "0", "is not an integer from 1"),
    ],
)
def test_a_bad_value_is_refused_with_the_name_of_the_variable(name: str, value: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint) as raised:
        Settings.from_env({name: value})
    assert raised.value.field == name


@pytest.mark.parametrize(
    ("text", "meaning"), [("90", 90), ("1.5h", 5400), ("15 m", 900), (" 7D ", 604800), ("0", 0), ("30s", 30)]
)
def test_a_length_of_time_is_read_as_people_write_it(text: str, meaning: float) -> None:
    assert parse_seconds(text, "--older-than") == meaning


@pytest.mark.parametrize("text", ["", "h", "1w", "1h30m", "١s", "1e9", "9" * 20])
def test_what_is_no_length_of_time_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^--older-than: invalid duration '.*'"):
        parse_seconds(text, "--older-than")


def test_xdg_directories_are_followed_when_absolute(tmp_path: Path) -> None:
    settings = Settings.from_env(
        {
            "HOME": str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path / "c"),
            "XDG_CONFIG_HOME": "relative/is/ignored",
            "XDG_STATE_HOME": str(tmp_path / "s"),
        }
    )
    assert settings.cache_dir == tmp_path / "c" / "openskills"
    assert settings.state_dir == tmp_path / "s" / "openskills"
    assert settings.config_dir == tmp_path / ".config" / "openskills"


def test_our_own_variables_win_over_xdg(tmp_path: Path) -> None:
    settings = Settings.from_env(
        {
            "HOME": str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path / "xdg"),
            "OPENSKILL_CACHE_DIR": str(tmp_path / "ours"),
            "OPENSKILL_CONFIG_DIR": str(tmp_path / "conf"),
            "SKILLS_CACHE_DIR": str(tmp_path / "archives"),
        }
    )
    assert settings.cache_dir == tmp_path / "ours"
    assert settings.config_dir == tmp_path / "conf"
    assert settings.skills_cache_dir == tmp_path / "archives"


def test_a_relative_directory_is_made_absolute() -> None:
    settings = Settings.from_env({"OPENSKILL_CACHE_DIR": "cache"})
    assert settings.cache_dir == Path.cwd() / "cache"


@pytest.mark.parametrize(
    "name", ["OPENSKILL_CACHE_DIR", "OPENSKILL_CONFIG_DIR", "OPENSKILL_STATE_DIR", "SKILLS_CACHE_DIR"]
)
def test_a_directory_that_cannot_be_is_refused_with_the_name_of_the_variable(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}: '~nosuch/x' starts with the home of an unknown user"):
        Settings.from_env({"HOME": str(tmp_path), name: "~nosuch/x"})
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidArgument, match=f"^{name}: 'x': the current directory was removed; use an absolute path"):
        Settings.from_env({"HOME": str(tmp_path), name: "x"})


@pytest.mark.parametrize("value", ["", "  "])
def test_a_blank_variable_counts_as_absent(value: str, tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path), "SKILLS_ROOT": value, "OPENSKILL_CACHE_DIR": value})
    assert settings.skills_root is None
    assert settings.cache_dir == tmp_path / ".cache" / "openskills"


def test_the_root_of_skills_may_be_an_address() -> None:
    assert Settings.from_env({"SKILLS_ROOT": " https://example.org/s.zip "}).skills_root == "https://example.org/s.zip"


@pytest.mark.parametrize(("value", "meaning"), [("1", True), ("YES", True), ("on", True), ("0", False), ("off", False)])
def test_a_switch_understands_the_usual_words(value: str, meaning: bool) -> None:
    assert Settings.from_env({"OPENSKILL_DEBUG": value}).debug is meaning
    assert Settings.from_env({"OPENSKILL_TRACE_CONTENT": value}).trace_content is meaning
    assert Settings.from_env({"OPENSKILL_INDEX": value}).index is meaning


def test_a_switch_with_another_word_is_refused_with_its_name() -> None:
    with pytest.raises(InvalidArgument, match="OPENSKILL_DEBUG: invalid boolean 'maybe'; use 1 or 0"):
        Settings.from_env({"OPENSKILL_DEBUG": "maybe"})


def test_settings_keep_the_environment_they_came_from_and_do_not_change_with_it() -> None:
    environment = {"PATH": "/opt/tools", "API_KEY": "x"}
    settings = Settings.from_env(environment)
    environment["API_KEY"] = "changed"
    assert settings.search_path == "/opt/tools"
    assert settings.environment["API_KEY"] == "x"


def test_without_argument_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLS_ROOT", "from-the-process")
    assert Settings.from_env().skills_root == "from-the-process"


def test_the_variable_that_decided_is_the_first_that_counts() -> None:
    assert find_variable("cache_dir", {"OPENSKILL_CACHE_DIR": "x", "XDG_CACHE_HOME": "/y"}) == "OPENSKILL_CACHE_DIR"
    assert find_variable("skills_cache_dir", {"XDG_CACHE_HOME": "/y"}) == "XDG_CACHE_HOME"
    assert find_variable("cache_dir", {"XDG_CACHE_HOME": "relative", "OPENSKILL_CACHE_DIR": " "}) is None


@pytest.mark.parametrize(("text", "meaning"), [("50000", 50_000), (" 2g ", 2 * 1024**3), ("64 KiB", 65_536)])
def test_an_amount_is_read_as_people_write_it(text: str, meaning: int) -> None:
    assert parse_amount(text, "limits") == meaning
    with pytest.raises(InvalidArgument, match=r"^limits: invalid amount '-1'"):
        parse_amount("-1", "limits")
