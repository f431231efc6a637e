"""The environment and the project file become values, each read in one place."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.project import (
    MAX_BYTES,
    PROJECT_FILE,
    SkillGrants,
    ValidateOptions,
    combine_grants,
    find_project_file,
    open_project,
    read_project,
)
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


def test_a_history_that_is_off_is_not_a_path() -> None:
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
def test_what_is_not_a_length_of_time_is_refused_with_its_field(text: str) -> None:
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
    assert find_variable("host_uploads", {"XDG_STATE_HOME": "/y"}) == "XDG_STATE_HOME"
    assert find_variable("cache_dir", {"XDG_CACHE_HOME": "relative", "OPENSKILL_CACHE_DIR": " "}) is None


@pytest.mark.parametrize(("text", "meaning"), [("50000", 50_000), (" 2g ", 2 * 1024**3), ("64 KiB", 65_536)])
def test_an_amount_is_read_as_people_write_it(text: str, meaning: int) -> None:
    assert parse_amount(text, "limits") == meaning
    with pytest.raises(InvalidArgument, match=r"^limits: invalid amount '-1'"):
        parse_amount("-1", "limits")


def write_project(directory: Path, text: str) -> Path:
    path = directory / PROJECT_FILE
    path.write_text(text, "utf-8")
    return path


def test_a_project_file_has_grants_by_skill_and_the_options_of_validate(tmp_path: Path) -> None:
    text = """
        [skills."*"]
        timeout = "2m"
        network = ["api.example.org", "*.example.com:8443"]

        [skills.pdf]
        packages = ["pypdf>=4", "pillow"]
        npm = ["sharp@0.33"]
        venv = "envs/pdf"
        secrets = ["PDF_KEY"]
        environment = { LEVEL = "3" }
        timeout = 1.5

        [validate]
        select = ["link-dead"]
        ignore = ["body-lines"]

        [validate.per-file-ignores]
        "vendor/**" = ["link-dead"]

        [validate.per-skill-ignores]
        pdf = ["name-folder"]
    """
    found = read_project(write_project(tmp_path, text))
    general = SkillGrants(network=("api.example.org", "*.example.com:8443"), timeout=120)
    own = SkillGrants(
        secrets=("PDF_KEY",),
        environment={"LEVEL": "3"},
        timeout=1.5,
        packages=("pypdf>=4", "pillow"),
        npm=("sharp@0.33",),
        venv=tmp_path / "envs/pdf",
    )
    assert found.grants == {"*": general, "pdf": own}
    assert found.validate == ValidateOptions(
        ("link-dead",), ("body-lines",), {"vendor/**": ("link-dead",)}, {"pdf": ("name-folder",)}
    )
    assert combine_grants(found.grants, "pdf") == replace(own, network=general.network)
    assert combine_grants(found.grants, "other") == combine_grants(found.grants, None) == general
    assert found.locate("skills", "pdf", "timeout") == f"{found.path}:12"
    assert not SkillGrants()
    assert own.merge(SkillGrants(timeout=9)).timeout == 9
    assert read_project(write_project(tmp_path, text + "\n# changed")).digest != found.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[skils.pdf]", ":1: skils: unknown key; did you mean skills?"),
        ("[skills.pdf]\nnetwrk = []", ":2: skills.pdf.netwrk: unknown key; did you mean network?"),
        ('[skills."*"]\nzzz = 1', ':2: skills."*".zzz: unknown key; use network, secrets, environment, timeout'),
        ('[skills.pdf]\nnetwork = "a.example"', ':2: skills.pdf.network: expected a list, got a string; write ["a.ex'),
        ("[skills.pdf]\nsecrets = [1]", ":2: skills.pdf.secrets: expected a string, got a number"),
        ('[skills.pdf]\nsecrets = ["sk-hunter2"]', "item 1 is not the name of a variable; do not put values here"),
        ("[skills.pdf.environment]\nA = 1", ":2: skills.pdf.environment.A: expected a string, got a number; put it in"),
        ('[skills.pdf]\nenvironment."a b" = "c"', ':2: skills.pdf.environment."a b": invalid variable name'),
        ("[skills.pdf]\ntimeout = true", ":2: skills.pdf.timeout: expected a number of seconds"),
        ("[skills.pdf]\ntimeout = nan", "expected a number of seconds"),
        ("[skills.pdf]\ntimeout = inf", "expected a number of seconds"),
        ("[skills.pdf]\ntimeout = 0", "expected a number of seconds"),
        ('[skills.pdf]\ntimeout = "soon"', 'expected a number of seconds, or text such as "90s"'),
        ('[skills.pdf]\npackages = ["--index-url=http://x"]', "is an option of the installer; name a package"),
        ('[skills.pdf]\nnpm = [""]', ":2: skills.pdf.npm: a string is empty or has unprintable characters"),
        ("[skills.pdf]\nvenv = 2020-01-01", ":2: skills.pdf.venv: expected a string, got a date or time"),
        ("skills = 1", ":1: skills: expected a table, got a number"),
        ("[[skills.pdf]]", ":1: skills.pdf: expected a table, got a list"),
        ("[validate]\nselct = []", ":2: validate.selct: unknown key; did you mean select?"),
        ('[validate.per-file-ignores]\n"a/*" = "x"', ':2: validate.per-file-ignores."a/*": expected a list'),
        ("[skills", "not valid TOML: Expected"),
        ("a = 1\na = 2\n", "not valid TOML: Cannot overwrite a value (at line 2, column 6)"),
        ("a = " + "[" * 100_000, "not valid TOML: nested too deeply"),
        ("a = 1" + "0" * 5_000, "not valid TOML: Exceeds the limit"),
        ("#" * (MAX_BYTES + 1), "has more than 1,048,576 bytes"),
    ],
)
def test_a_fault_in_a_project_file_names_the_file_the_line_the_key_and_the_fix(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write_project(tmp_path, text)
    with pytest.raises(InvalidArgument) as caught:
        read_project(path)
    assert caught.value.message.startswith(str(path))
    assert message in caught.value.message
    assert "hunter2" not in caught.value.message


def test_what_is_not_a_text_file_is_refused_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / PROJECT_FILE
    for make, message in (
        (lambda: os.mkfifo(path), "not a regular file"),
        (path.mkdir, "Is a directory|not a regular file"),
        (lambda: path.symlink_to("nowhere"), "cannot be read: No such file"),
        (lambda: path.write_bytes(b"a = '\xff'"), "not UTF-8 at byte 5"),
    ):
        make()
        with pytest.raises(InvalidArgument, match=message):
            open_project(None, settings_for(tmp_path), tmp_path)
        path.rmdir() if path.is_dir() else path.unlink()


def settings_for(home: Path, **variables: str) -> Settings:
    return Settings.from_env({"HOME": str(home), **variables})


def test_the_nearest_project_file_counts_up_to_the_repository_or_the_home_directory(tmp_path: Path) -> None:
    deep = tmp_path / "home" / "repo" / "a" / "b"
    deep.mkdir(parents=True)
    outside = write_project(tmp_path, "")
    home = tmp_path / "home"
    assert find_project_file(deep, tmp_path / "other") == outside
    assert find_project_file(deep, home) is None
    at_home = write_project(home, "")
    assert find_project_file(deep, home) == at_home
    (home / "repo" / ".git").mkdir()
    assert find_project_file(deep, home) is None
    at_root = write_project(home / "repo", "")
    assert find_project_file(deep, home) == at_root
    near = write_project(home / "repo" / "a", "")
    assert find_project_file(deep, home) == near


def test_a_project_file_can_be_named_and_disabled(tmp_path: Path) -> None:
    write_project(tmp_path, "")
    named = tmp_path / "other.toml"
    named.write_text("[skills.a]\ntimeout = 1\n")
    settings = settings_for(tmp_path / "home")
    assert (found := open_project(None, settings, tmp_path)) is not None
    assert found.path.name == PROJECT_FILE
    assert open_project("off", settings, tmp_path) is None
    assert (found := open_project(str(named), settings, tmp_path)) is not None
    assert found.path == named
    by_variable = settings_for(tmp_path / "home", OPENSKILL_PROJECT=str(named))
    assert (found := open_project(None, by_variable, tmp_path)) is not None
    assert found.path == named
    assert open_project(None, settings_for(tmp_path / "home", OPENSKILL_PROJECT="off"), tmp_path) is None
    with pytest.raises(InvalidArgument, match="--project: gone is not a file; name a project file, or off for none"):
        open_project("gone", settings)
    with pytest.raises(InvalidArgument, match="OPENSKILL_PROJECT: gone is not a file"):
        open_project(None, settings_for(tmp_path, OPENSKILL_PROJECT="gone"))
