"""The package as it is imported."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import openskills.adapters.langchain as package
from tests.architecture.project import ROOT


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
    said = "MissingExtra openskills.adapters.langchain.SkillsMiddleware needs an extra; install it with: "
    assert run(program) == f"{said}pip install 'openskill-runtime[deepagents]'"


def test_without_langchain_the_message_names_the_extra_that_is_enough() -> None:
    program = """
import sys
sys.modules["langchain"] = None
import openskills.adapters.langchain as package
for name in ("SkillRuntimeMiddleware", "SkillsMiddleware"):
    try:
        getattr(package, name)
    except Exception as error:
        print(error.extra)
"""
    assert run(program) == "langchain\ndeepagents"


_AGENT_WITHOUT_DEEPAGENTS = """
import asyncio, sys
sys.modules["deepagents"] = None
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from openskills import Catalog, SkillRuntime
from openskills.adapters.langchain import SkillRuntimeMiddleware, ask_by_interrupt, loaded_skills, system_text, tools

class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self

async def main():
    call = {"name": "skill_load", "args": {"skill": "notes"}, "id": "1"}
    model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
    async with SkillRuntime(Catalog.from_paths(sys.argv[1])) as runtime:
        agent = create_agent(model, middleware=[SkillRuntimeMiddleware(runtime)])
        state = await agent.ainvoke({"messages": [{"role": "user", "content": "hi"}]})
    print([message.type for message in state["messages"]], state["messages"][2].status)
    print([name for name in sys.modules if name.partition(".")[0] == "deepagents" and sys.modules[name]])

asyncio.run(main())
"""


def test_the_runtime_middleware_works_without_deepagents(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "SKILL.md").write_text("---\nname: notes\ndescription: Takes notes.\n---\nWrite.\n")
    done = subprocess.run(
        [sys.executable, "-c", _AGENT_WITHOUT_DEEPAGENTS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "['human', 'ai', 'tool', 'ai'] success\n[]\n", done.stderr


def test_the_extra_langchain_does_not_require_deepagents() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    names = {extra: {re.split(r"[<>=]", one)[0] for one in extras[extra]} for extra in ("langchain", "deepagents")}
    assert names["langchain"] == {"langchain", "langgraph"}
    assert names["deepagents"] == {"deepagents", "openskill-runtime[langchain]"}


def test_whatever_upstream_exports_is_here_too() -> None:
    import deepagents.middleware.skills as upstream

    assert set(upstream.__all__) <= set(package.__all__)
    assert package.SkillToolResolver is upstream.SkillToolResolver
    assert package.disclosed_skill_tool_names is upstream.disclosed_skill_tool_names
