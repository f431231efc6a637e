"""The exceptions of OpenSkill: subclasses of `SkillError`, each with an HTTP status, a reason and a retry hint.

    SkillError                500 INTERNAL
      InvalidSkill            422 INVALID_SKILL         carries problems
      UnknownSkill            404 UNKNOWN_SKILL         carries the nearest names
      UnknownRun              404 UNKNOWN_RUN           expired, never existed, or another caller's
      UnknownUpload           404 UNKNOWN_UPLOAD        no uploaded skill, version or file, or another caller's
      UnknownSession          404 UNKNOWN_SESSION       carries the nearest names
      InvalidArgument         400 INVALID_ARGUMENT      carries the field
      ForbiddenPath           403 FORBIDDEN_PATH
      CommandDenied           403 COMMAND_DENIED
      Unauthorized            401 UNAUTHORIZED
      Forbidden               403 FORBIDDEN             the caller lacks a permission; names the missing scope
      NotLoaded               409 NOT_LOADED            says to call skill_load
      NameTaken               409 NAME_TAKEN            the owner has an uploaded skill of this name; carries its id
      SessionConflict         409 SESSION_CONFLICT      retryable; carries the current revision
      SessionInUse            409 SESSION_IN_USE        retryable; carries who runs the conversation
      LeaseLost               409 LEASE_LOST            another process has continued the conversation
      RequestInFlight         409 REQUEST_IN_FLIGHT     retryable; the first request with this key is still running
      LimitExceeded           413 LIMIT_EXCEEDED        which limit, by how much
      TooManyRequests         429 TOO_MANY_REQUESTS     retryable
      RunCancelled            499 CANCELLED             cancelled on request
      KeyReused               422 KEY_REUSED            an idempotency key with a different body than before
      UnsupportedMedia        415 UNSUPPORTED_MEDIA     which type was expected
      BadSkillOutput          502 BAD_SKILL_OUTPUT      carries an excerpt of the output
      SourceUnavailable       503 SOURCE_UNAVAILABLE    retryable; a skill source that cannot be reached
      DeadlineExceeded        504 DEADLINE_EXCEEDED     retryable
      ModelUnavailable        503 MODEL_UNAVAILABLE     retryable; the provider's error and the number of attempts
      ExecutorUnavailable     503 EXECUTOR_UNAVAILABLE  retryable; never the command's own failure
      SessionsUnavailable     503 SESSIONS_UNAVAILABLE  retryable; acknowledged writes are safe
      ArtifactsUnavailable    503 ARTIFACTS_UNAVAILABLE retryable; acknowledged writes are safe
      StoreUnavailable        503 STORE_UNAVAILABLE     retryable; the host's database cannot be read or written
      RunInterrupted          503 INTERRUPTED           retryable; the host stopped while the skill was running
      HostUnavailable         503 HOST_UNAVAILABLE      retryable; a skill host cannot be reached or disconnected
      MissingExtra            501 MISSING_EXTRA         which pip extra to install

A fault in a skill is a `Problem` and a failed command is a `RunResult`; both are values and are not raised.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar


def shorten(text: str, limit: int = 100) -> str:
    """The first characters of a text for a message, and an ellipsis if there are more."""
    return text if len(text) <= limit else f"{text[:limit]}…"


class SkillError(Exception):
    """Base class of all OpenSkill errors; `str(error)` is a message for the user."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: int = 0, reason: str = "", retryable: bool | None = None) -> None:
        cls.code = code or cls.code
        cls.reason = reason or cls.reason
        cls.retryable = cls.retryable if retryable is None else retryable

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, object] = details


class InvalidSkill(SkillError, code=422, reason="INVALID_SKILL"):
    """The skill cannot be used; `problems` says why and where."""

    def __init__(self, message: str, problems: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class UnknownSkill(SkillError, code=404, reason="UNKNOWN_SKILL"):
    """No visible skill has this name; `near` has the closest names, best first."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"; did you mean {' or '.join(repr(other) for other in near)}?" if near else ""
        shown = shorten(name)
        super().__init__(f"unknown skill {shown!r}{hint}", name=shown, near=list(near))
        self.name = name
        self.near = tuple(near)


class UnknownRun(SkillError, code=404, reason="UNKNOWN_RUN"):
    """No run has this id: it never existed, it expired, or it belongs to another caller."""


class UnknownUpload(SkillError, code=404, reason="UNKNOWN_UPLOAD"):
    """No uploaded skill, version or file has this id, or it belongs to another caller."""

    def __init__(self, kind: str, name: str) -> None:
        shown = shorten(name)
        super().__init__(f"unknown {kind} {shown!r}", kind=kind, name=shown)


class UnknownSession(SkillError, code=404, reason="UNKNOWN_SESSION"):
    """No session has this name; the message has the closest names, or says how to list them."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "list them with `openskills sessions list`"
        super().__init__(f"unknown session {name!r}; {hint}", session=name)


class InvalidArgument(SkillError, code=400, reason="INVALID_ARGUMENT"):
    """An argument is not valid; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}", field=field)
        self.field = field


class ForbiddenPath(SkillError, code=403, reason="FORBIDDEN_PATH"):
    """A path leads out of the directory it must stay in."""


class CommandDenied(SkillError, code=403, reason="COMMAND_DENIED"):
    """The policy does not allow the command."""


class Unauthorized(SkillError, code=401, reason="UNAUTHORIZED"):
    """The request has no valid credentials."""


class Forbidden(SkillError, code=403, reason="FORBIDDEN"):
    """The caller is known but not allowed to do this."""


class NotLoaded(SkillError, code=409, reason="NOT_LOADED"):
    """The skill must be loaded first; the message says to call `skill_load`."""


class NameTaken(SkillError, code=409, reason="NAME_TAKEN"):
    """Another uploaded skill of the same owner has this name; `skill_id` is its id."""

    def __init__(self, name: str, skill_id: str) -> None:
        super().__init__(
            f"a skill named {name!r} exists ({skill_id}); upload a new version of it, or delete it first",
            skill_id=skill_id,
        )


class RequestInFlight(SkillError, code=409, reason="REQUEST_IN_FLIGHT", retryable=True):
    """The first request with this idempotency key is still running; try again later."""


class SessionConflict(SkillError, code=409, reason="SESSION_CONFLICT", retryable=True):
    """The session changed in the meantime; read it again and retry."""

    def __init__(self, session: str, expected: int, revision: int) -> None:
        super().__init__(
            f"session {session!r} is at revision {revision}, not at {expected}; read it again and retry",
            expected=expected,
            revision=revision,
        )
        self.revision = revision


class SessionInUse(SkillError, code=409, reason="SESSION_IN_USE", retryable=True):
    """Another process runs this conversation; `seconds` is how long its lease lasts unless it is renewed."""

    def __init__(self, session: str, holder: str, seconds: float) -> None:
        super().__init__(
            f"session {session!r} is in use by {holder}; wait until its turn has ended, or, if that process has died, "
            f"try again in {max(seconds, 0.0):.0f} seconds",
            session=session,
            holder=holder,
            retry_after=max(1, round(seconds)),
        )
        self.holder = holder
        self.seconds = seconds


class LeaseLost(SkillError, code=409, reason="LEASE_LOST"):
    """The lease of this process on a conversation has ended; nothing was stored or run."""

    def __init__(self, session: str, epoch: int, holder: str = "") -> None:
        now = f"{holder} has continued it" if holder else "it was released or given to another process"
        super().__init__(
            f"this process has lost session {session!r} (lease {epoch}): {now} because the lease was not renewed in "
            "time; nothing was stored; open the session again to continue from its log",
            session=session,
            epoch=epoch,
            holder=holder,
        )


class LimitExceeded(SkillError, code=413, reason="LIMIT_EXCEEDED"):
    """A limit was exceeded; the message says which, and by how much."""


class TooManyRequests(SkillError, code=429, reason="TOO_MANY_REQUESTS", retryable=True):
    """Too many requests; try again later."""


class RunCancelled(SkillError, code=499, reason="CANCELLED"):
    """The run was cancelled on request."""


class KeyReused(SkillError, code=422, reason="KEY_REUSED"):
    """An idempotency key was reused with a different body; use a new key for each request."""


class UnsupportedMedia(SkillError, code=415, reason="UNSUPPORTED_MEDIA"):
    """The content type is not supported; the message says which type was expected."""


class BadSkillOutput(SkillError, code=502, reason="BAD_SKILL_OUTPUT"):
    """The output of a skill breaks its contract; carries an excerpt."""


class SourceUnavailable(SkillError, code=503, reason="SOURCE_UNAVAILABLE", retryable=True):
    """A skill source (URL, repository, package) cannot be reached or used."""


class DeadlineExceeded(SkillError, code=504, reason="DEADLINE_EXCEEDED", retryable=True):
    """The operation timed out."""


class ModelUnavailable(SkillError, code=503, reason="MODEL_UNAVAILABLE", retryable=True):
    """A language model cannot be reached, is overloaded, or stopped in the middle of a response."""


class ExecutorUnavailable(SkillError, code=503, reason="EXECUTOR_UNAVAILABLE", retryable=True):
    """The executor cannot be used; never raised for a command that fails."""


class StoreUnavailable(SkillError, code=503, reason="STORE_UNAVAILABLE", retryable=True):
    """The host's database (runs, results, history) cannot be read or written."""


class RunInterrupted(SkillError, code=503, reason="INTERRUPTED", retryable=True):
    """The process that ran the skill ended; how far the skill got is unknown."""


class HostUnavailable(SkillError, code=503, reason="HOST_UNAVAILABLE", retryable=True):
    """A skill host cannot be reached, or disconnected in the middle of a response."""


class SessionsUnavailable(SkillError, code=503, reason="SESSIONS_UNAVAILABLE", retryable=True):
    """The session store does not respond or is busy. Acknowledged writes are safe.

    The call can be repeated as it is: an event that was stored is not stored twice.
    """


class ArtifactsUnavailable(SkillError, code=503, reason="ARTIFACTS_UNAVAILABLE", retryable=True):
    """The artifact store does not respond. Acknowledged writes are safe."""


class MissingExtra(SkillError, code=501, reason="MISSING_EXTRA"):
    """An optional dependency is not installed; the message has the `pip install` line."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs an extra; install it with: pip install 'openskill-runtime[{extra}]'", extra=extra
        )
        self.extra = extra
