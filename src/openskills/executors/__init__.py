"""Running commands in a workspace."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.executors.approval import ApprovalRequest
    from openskills.executors.checkpoints import (
        CheckpointInfo,
        refresh_workspace,
        remove_checkpoints,
        restore_workspace,
        save_workspace,
    )
    from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
    from openskills.executors.container.spec import ContainerOptions
    from openskills.executors.interactive import InteractiveCommands
    from openskills.executors.local import LocalBackend
    from openskills.executors.open import open_executor
    from openskills.executors.package_index import PackageIndex
    from openskills.executors.policy import CommandPolicy
    from openskills.executors.protocol import Executor, Process, Workspace
    from openskills.executors.requests import InstallMode, PackageOptions, RunRequest, RunResult, SecretRequest
    from openskills.executors.spec import (
        Command,
        CommandResult,
        Isolation,
        Limits,
        PackageEnvironment,
        TerminalSize,
    )
    from openskills.executors.staging.inputs import InputSpec
    from openskills.executors.staging.outputs import OutputFile, OutputSpec
    from openskills.executors.staging.packages import PackageSet
    from openskills.executors.workspace import DirectoryExecutor

__all__ = [
    "ApprovalRequest",
    "CheckpointInfo",
    "Command",
    "CommandPolicy",
    "CommandResult",
    "CommandRules",
    "CommandRunner",
    "ContainerOptions",
    "DirectoryExecutor",
    "Executor",
    "InputSpec",
    "InstallMode",
    "InteractiveCommands",
    "Isolation",
    "Limits",
    "LocalBackend",
    "OutputFile",
    "OutputSpec",
    "PackageEnvironment",
    "PackageIndex",
    "PackageOptions",
    "PackageSet",
    "Process",
    "RunRequest",
    "RunResult",
    "SecretRequest",
    "TerminalSize",
    "Workspace",
    "open_command_runner",
    "open_executor",
    "refresh_workspace",
    "remove_checkpoints",
    "restore_workspace",
    "save_workspace",
]

_HOME = {
    "ApprovalRequest": "approval",
    "CheckpointInfo": "checkpoints",
    "Command": "spec",
    "CommandPolicy": "policy",
    "CommandResult": "spec",
    "CommandRules": "commands",
    "CommandRunner": "commands",
    "ContainerOptions": "container.spec",
    "DirectoryExecutor": "workspace",
    "Executor": "protocol",
    "InputSpec": "staging.inputs",
    "InstallMode": "requests",
    "InteractiveCommands": "interactive",
    "Isolation": "spec",
    "Limits": "spec",
    "LocalBackend": "local",
    "OutputFile": "staging.outputs",
    "OutputSpec": "staging.outputs",
    "PackageEnvironment": "spec",
    "PackageIndex": "package_index",
    "PackageOptions": "requests",
    "PackageSet": "staging.packages",
    "Process": "protocol",
    "RunRequest": "requests",
    "RunResult": "requests",
    "SecretRequest": "requests",
    "TerminalSize": "spec",
    "Workspace": "protocol",
    "open_command_runner": "commands",
    "open_executor": "open",
    "refresh_workspace": "checkpoints",
    "remove_checkpoints": "checkpoints",
    "restore_workspace": "checkpoints",
    "save_workspace": "checkpoints",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
