"""How others run a command of a skill, each as its users get it. Imports only the library that is asked for."""

import asyncio
import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Peer:
    """A library: its environment below `.bench`, the module by which it is seen there, and what of it runs commands."""

    name: str
    environment: str
    module: str
    runs: str


PEERS = (
    Peer("deepagents", "venv", "deepagents", "LocalShellBackend"),
    Peer("trpc-agent-py", "running", "trpc_agent_sdk", "its local workspace runtime"),
    Peer("pydantic-ai-skills", "pydantic", "pydantic_ai_skills", "LocalSkillScriptExecutor"),
    Peer("google-adk", "adk", "google/adk", "UnsafeLocalCodeExecutor"),
)
NOT_TRIED = {
    "skills-ref": "it validates skills, but does not run commands",
    "FastMCP": "it serves the files of skills, but does not run commands",
    "containers of trpc-agent-py and google-adk": "commands run as root there, where probes may not be harmless",
    "sandboxes for deepagents, pydantic-ai-skills and google-adk": "they are third-party services and programs",
}
"""What else there is, and why it is not tried."""


class DeepAgents:
    """`LocalShellBackend` in a directory."""

    def __init__(self, tree: Path) -> None:
        self._backend: Any = importlib.import_module("deepagents.backends.local_shell").LocalShellBackend(root_dir=tree)

    async def run(self, shell: str, timeout: float) -> None:
        """Run a command to its end."""
        await asyncio.to_thread(self._backend.execute, shell, timeout=int(timeout))

    async def collected(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Files of the directory."""
        found: list[Any] = self._backend.download_files([f"/{name}" for name in names])
        return {str(one.path): one.content or b"" for one in found}


class TrpcAgent:
    """The local runtime of trpc-agent-py, with the directory as its workspace."""

    def __init__(self, tree: Path) -> None:
        module: Any = importlib.import_module("trpc_agent_sdk.code_executors.local")
        self._types: Any = importlib.import_module("trpc_agent_sdk.code_executors")
        self._runtime: Any = module.create_local_workspace_runtime(str(tree.parent))
        self._workspace: Any = self._types.WorkspaceInfo(id="one", path=str(tree))

    async def run(self, shell: str, timeout: float) -> None:
        """Run a command to its end."""
        spec = self._types.WorkspaceRunProgramSpec(cmd="bash", args=["-c", shell], cwd=".", timeout=timeout)
        await self._runtime.runner().run_program(self._workspace, spec)

    async def collected(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Files of the workspace, by their names, so that no other hides them."""
        found: list[Any] = await self._runtime.fs().collect(self._workspace, list(names))
        return {str(one.name): str(one.content).encode("utf-8", "replace") for one in found}


class PydanticSkills:
    """`LocalSkillScriptExecutor`, which runs files: the command is written into one."""

    def __init__(self, tree: Path) -> None:
        self._module: Any = importlib.import_module("pydantic_ai_skills.local")
        self._tree = tree
        self._numbers = itertools.count()

    async def run(self, shell: str, timeout: float) -> None:
        """Run a command to its end."""
        path = self._tree / f"script{next(self._numbers)}.sh"
        path.write_text(f"#!/bin/bash\n{shell}\n", "utf-8")
        executor = self._module.LocalSkillScriptExecutor(timeout=int(timeout))
        script = self._module.FileBasedSkillScript(name=path.name, uri=str(path), executor=executor)
        await script.run(None)


class GoogleAdk:
    """`UnsafeLocalCodeExecutor`, which runs Python: what it is given becomes the command."""

    def __init__(self, tree: Path) -> None:
        self._executors: Any = importlib.import_module("google.adk.code_executors.unsafe_local_code_executor")
        self._inputs: Any = importlib.import_module("google.adk.code_executors.code_execution_utils")
        self._tree = tree

    async def run(self, shell: str, timeout: float) -> None:
        """Run a command to its end."""
        code = f"import os\nos.chdir({str(self._tree)!r})\nos.execvp('bash', ['bash', '-c', {shell!r}])\n"
        executor = self._executors.UnsafeLocalCodeExecutor(timeout_seconds=int(timeout))
        await asyncio.to_thread(executor.execute_code, None, self._inputs.CodeExecutionInput(code=code))


WAYS: Mapping[str, Callable[[Path], Any]] = {
    "deepagents": DeepAgents,
    "trpc-agent-py": TrpcAgent,
    "pydantic-ai-skills": PydanticSkills,
    "google-adk": GoogleAdk,
}
