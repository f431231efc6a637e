"""The package as it is imported."""

import subprocess
import sys

import pytest

import openskills.adapters.langchain as package


def run(program: str) -> str:
    """What a program prints in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_is_fetched_on_first_use() -> None:
    # An alias of a type has no name of its own.
    for name in set(package.__all__) - {"SkillToolResolver"}:
        assert getattr(package, name).__name__ == name


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = package.Nonsense  # type: ignore[attr-defined]


def test_importing_the_package_loads_nothing_of_langchain() -> None:
    program = "import sys, openskills.adapters.langchain; print([m for m in sys.modules if 'lang' in m])"
    assert run(program) == "['openskills.adapters.langchain']"


def test_without_deepagents_the_message_says_what_to_install() -> None:
    program = """
import sys
sys.modules["deepagents"] = None
import openskills.adapters.langchain as package
try:
    package.SkillsMiddleware
except Exception as error:
    print(type(error).__name__, error)
"""
    assert run(program).startswith("MissingExtra openskills.adapters.langchain.SkillsMiddleware needs an extra; ")


def test_whatever_upstream_exports_is_here_too() -> None:
    import deepagents.middleware.skills as upstream

    assert set(upstream.__all__) <= set(package.__all__)
    assert package.SkillToolResolver is upstream.SkillToolResolver
    assert package.disclosed_skill_tool_names is upstream.disclosed_skill_tool_names
