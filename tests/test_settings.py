"""The environment becomes one value, read in one place."""

from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.settings import Settings


def test_an_empty_environment_gives_the_documented_defaults(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path)})
    assert settings.home == tmp_path
    assert settings.cache_dir == tmp_path / ".cache" / "openskills"
    assert settings.skills_cache_dir == tmp_path / ".cache" / "openskills" / "sources"
    assert settings.config_dir == tmp_path / ".config" / "openskills"
    assert settings.skills_root is None
    assert settings.index is True
    assert settings.debug is False


def test_xdg_directories_are_followed_when_absolute(tmp_path: Path) -> None:
    settings = Settings.from_env(
        {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c"), "XDG_CONFIG_HOME": "relative/is/ignored"}
    )
    assert settings.cache_dir == tmp_path / "c" / "openskills"
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


@pytest.mark.parametrize("name", ["OPENSKILL_CACHE_DIR", "OPENSKILL_CONFIG_DIR", "SKILLS_CACHE_DIR"])
def test_a_directory_that_cannot_be_is_refused_with_the_name_of_the_variable(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}: '~nosuch/x' begins with the home of an unknown user"):
        Settings.from_env({"HOME": str(tmp_path), name: "~nosuch/x"})
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidArgument, match=f"^{name}: 'x': the current directory is gone; use an absolute path"):
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
    assert Settings.from_env({"OPENSKILL_INDEX": value}).index is meaning


def test_a_switch_with_another_word_is_refused_with_its_name() -> None:
    with pytest.raises(InvalidArgument, match="OPENSKILL_DEBUG: 'maybe' is not a switch; use 1 or 0"):
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
