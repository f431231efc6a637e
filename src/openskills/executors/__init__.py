"""Running commands in a workspace."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.executors.approval import ApprovalRequest as ApprovalRequest
    from openskills.executors.checkpoints import CheckpointInfo as CheckpointInfo
    from openskills.executors.checkpoints import refresh_workspace as refresh_workspace
    from openskills.executors.checkpoints import remove_checkpoints as remove_checkpoints
    from openskills.executors.checkpoints import restore_workspace as restore_workspace
    from openskills.executors.checkpoints import save_workspace as save_workspace
    from openskills.executors.commands import CommandRules as CommandRules
    from openskills.executors.commands import CommandRunner as CommandRunner
    from openskills.executors.commands import open_command_runner as open_command_runner
    from openskills.executors.container.spec import ContainerOptions as ContainerOptions
    from openskills.executors.interactive import InteractiveCommands as InteractiveCommands
    from openskills.executors.local import LocalBackend as LocalBackend
    from openskills.executors.open import open_executor as open_executor
    from openskills.executors.package_index import PackageIndex as PackageIndex
    from openskills.executors.policy import CommandPolicy as CommandPolicy
    from openskills.executors.protocol import Executor as Executor
    from openskills.executors.protocol import Process as Process
    from openskills.executors.protocol import Workspace as Workspace
    from openskills.executors.requests import InstallMode as InstallMode
    from openskills.executors.requests import PackageOptions as PackageOptions
    from openskills.executors.requests import RunRequest as RunRequest
    from openskills.executors.requests import RunResult as RunResult
    from openskills.executors.requests import SecretRequest as SecretRequest
    from openskills.executors.spec import Command as Command
    from openskills.executors.spec import CommandResult as CommandResult
    from openskills.executors.spec import Isolation as Isolation
    from openskills.executors.spec import Limits as Limits
    from openskills.executors.spec import PackageEnvironment as PackageEnvironment
    from openskills.executors.spec import TerminalSize as TerminalSize
    from openskills.executors.staging.inputs import InputSpec as InputSpec
    from openskills.executors.staging.outputs import OutputFile as OutputFile
    from openskills.executors.staging.outputs import OutputSpec as OutputSpec
    from openskills.executors.staging.packages import PackageSet as PackageSet
    from openskills.executors.workspace import DirectoryExecutor as DirectoryExecutor

_MODULES = {
    "approval": ("ApprovalRequest",),
    "checkpoints": ("CheckpointInfo", "refresh_workspace", "remove_checkpoints", "restore_workspace", "save_workspace"),
    "commands": ("CommandRules", "CommandRunner", "open_command_runner"),
    "container.spec": ("ContainerOptions",),
    "interactive": ("InteractiveCommands",),
    "local": ("LocalBackend",),
    "open": ("open_executor",),
    "package_index": ("PackageIndex",),
    "policy": ("CommandPolicy",),
    "protocol": ("Executor", "Process", "Workspace"),
    "requests": ("InstallMode", "PackageOptions", "RunRequest", "RunResult", "SecretRequest"),
    "spec": ("Command", "CommandResult", "Isolation", "Limits", "PackageEnvironment", "TerminalSize"),
    "staging.inputs": ("InputSpec",),
    "staging.outputs": ("OutputFile", "OutputSpec"),
    "staging.packages": ("PackageSet",),
    "workspace": ("DirectoryExecutor",),
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
