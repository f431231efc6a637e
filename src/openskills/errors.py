"""What a caller of OpenSkill must handle.

    SkillError                500 INTERNAL
      InvalidSkill            422 INVALID_SKILL         carries problems
      UnknownSkill            404 UNKNOWN_SKILL         carries the nearest names
      UnknownRun              404 UNKNOWN_RUN           gone, never there, or somebody else's
      UnknownSession          404 UNKNOWN_SESSION       carries the nearest names
      InvalidArgument         400 INVALID_ARGUMENT      carries the field
      ForbiddenPath           403 FORBIDDEN_PATH
      CommandDenied           403 COMMAND_DENIED
      Unauthorized            401 UNAUTHORIZED
      Forbidden               403 FORBIDDEN             who called may not do this; which scope is missing
      NotLoaded               409 NOT_LOADED            says to call skill_load
      SessionConflict         409 SESSION_CONFLICT      retryable; somebody else has appended; which revision it is at
      RequestInFlight         409 REQUEST_IN_FLIGHT     retryable; the first request with this key is not done
      LimitExceeded           413 LIMIT_EXCEEDED        which limit, by how much
      TooManyRequests         429 TOO_MANY_REQUESTS     retryable
      RunCancelled            499 CANCELLED             somebody asked for it
      KeyReused               422 KEY_REUSED            an idempotency key with another body than before
      UnsupportedMedia        415 UNSUPPORTED_MEDIA     which type was expected
      BadSkillOutput          502 BAD_SKILL_OUTPUT      carries an excerpt of what came back
      SourceUnavailable       503 SOURCE_UNAVAILABLE    retryable; a place of skills that cannot be reached
      DeadlineExceeded        504 DEADLINE_EXCEEDED     retryable
      ModelUnavailable        503 MODEL_UNAVAILABLE     retryable; what the provider said, after how many tries
      ExecutorUnavailable     503 EXECUTOR_UNAVAILABLE  retryable; never the command's own failure
      SessionsUnavailable     503 SESSIONS_UNAVAILABLE  retryable; what was acknowledged before is safe
      ArtifactsUnavailable    503 ARTIFACTS_UNAVAILABLE retryable; what was acknowledged before is safe
      StoreUnavailable        503 STORE_UNAVAILABLE     retryable; what the host remembers cannot be read or written
      RunInterrupted          503 INTERRUPTED           retryable; the host ended while the skill ran
      HostUnavailable         503 HOST_UNAVAILABLE      retryable; a skill host that cannot be reached, or went away
      MissingExtra            501 MISSING_EXTRA         which pip extra to install

A fault in somebody's skill is a `Problem`, a value. A failed command is a `RunResult`. Neither is raised.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

MAX_NAME = 100
"""Characters of a name from outside that a message repeats."""


class SkillError(Exception):
    """Something our caller must handle; `str(error)` is a sentence for a person."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, object] = details


class InvalidSkill(SkillError):
    """A skill whose faults keep it from being used; `problems` says which and where."""

    code = 422
    reason = "INVALID_SKILL"

    def __init__(self, message: str, problems: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class UnknownSkill(SkillError):
    """No visible skill has this name; `near` holds the closest names, best first."""

    code = 404
    reason = "UNKNOWN_SKILL"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"; did you mean {' or '.join(repr(other) for other in near)}?" if near else ""
        # Whoever asked for it may have written anything.
        shown = name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"
        super().__init__(f"there is no skill named {shown!r}{hint}", name=shown, near=list(near))
        self.name = name
        self.near = tuple(near)


class UnknownRun(SkillError):
    """No run has this id: it was never there, its time is over, or it is somebody else's."""

    code = 404
    reason = "UNKNOWN_RUN"


class UnknownSession(SkillError):
    """There is no conversation of this name; the message has the closest names, or says how to list them."""

    code = 404
    reason = "UNKNOWN_SESSION"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "`openskills sessions list` shows them"
        super().__init__(f"there is no session named {name!r}; {hint}", session=name)


class InvalidArgument(SkillError):
    """A value from outside is not acceptable; `field` names it."""

    code = 400
    reason = "INVALID_ARGUMENT"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}", field=field)
        self.field = field


class ForbiddenPath(SkillError):
    """A path that leaves the place it must stay in."""

    code = 403
    reason = "FORBIDDEN_PATH"


class CommandDenied(SkillError):
    """A command that the policy does not allow."""

    code = 403
    reason = "COMMAND_DENIED"


class Unauthorized(SkillError):
    """No valid credential came with the request."""

    code = 401
    reason = "UNAUTHORIZED"


class Forbidden(SkillError):
    """Who called is known, and may not do this."""

    code = 403
    reason = "FORBIDDEN"


class NotLoaded(SkillError):
    """The skill must be loaded first; the message says to call `skill_load`."""

    code = 409
    reason = "NOT_LOADED"


class RequestInFlight(SkillError):
    """The first request with this idempotency key is not done yet; ask again later."""

    code = 409
    reason = "REQUEST_IN_FLIGHT"
    retryable = True


class SessionConflict(SkillError):
    """Somebody else has appended to the conversation meanwhile; read it again and decide anew."""

    code = 409
    reason = "SESSION_CONFLICT"
    retryable = True

    def __init__(self, session: str, expected: int, revision: int) -> None:
        super().__init__(
            f"session {session!r} is at revision {revision}, not at {expected}; read it again and decide anew",
            expected=expected,
            revision=revision,
        )
        self.revision = revision


class LimitExceeded(SkillError):
    """A limit was passed; the message says which, and by how much."""

    code = 413
    reason = "LIMIT_EXCEEDED"


class TooManyRequests(SkillError):
    """Come back later."""

    code = 429
    reason = "TOO_MANY_REQUESTS"
    retryable = True


class RunCancelled(SkillError):
    """Somebody asked to end it before it was done."""

    code = 499
    reason = "CANCELLED"


class KeyReused(SkillError):
    """An idempotency key came again with another body; each piece of work needs a key of its own."""

    code = 422
    reason = "KEY_REUSED"


class UnsupportedMedia(SkillError):
    """Bytes of a type that cannot be used here; the message says which type was expected."""

    code = 415
    reason = "UNSUPPORTED_MEDIA"


class BadSkillOutput(SkillError):
    """A skill answered with something that is not its contract; carries an excerpt."""

    code = 502
    reason = "BAD_SKILL_OUTPUT"


class SourceUnavailable(SkillError):
    """A place where skills come from (URL, repository, package) cannot be reached or used."""

    code = 503
    reason = "SOURCE_UNAVAILABLE"
    retryable = True


class DeadlineExceeded(SkillError):
    """Time ran out."""

    code = 504
    reason = "DEADLINE_EXCEEDED"
    retryable = True


class ModelUnavailable(SkillError):
    """A language model that cannot be reached, is overloaded, or broke off in the middle."""

    code = 503
    reason = "MODEL_UNAVAILABLE"
    retryable = True


class ExecutorUnavailable(SkillError):
    """The place where commands run cannot be used; never the command's own failure."""

    code = 503
    reason = "EXECUTOR_UNAVAILABLE"
    retryable = True


class StoreUnavailable(SkillError):
    """What the host remembers (runs, answers, history) cannot be read or written just now."""

    code = 503
    reason = "STORE_UNAVAILABLE"
    retryable = True


class RunInterrupted(SkillError):
    """The process that ran the skill has ended; how far the skill got is not known."""

    code = 503
    reason = "INTERRUPTED"
    retryable = True


class HostUnavailable(SkillError):
    """A skill host that cannot be reached, or went away in the middle of its answer."""

    code = 503
    reason = "HOST_UNAVAILABLE"
    retryable = True


class SessionsUnavailable(SkillError):
    """The place where conversations are kept does not answer, or is busy; what was acknowledged before is safe there.

    The call can be repeated as it is: an event that did arrive is not stored again.
    """

    code = 503
    reason = "SESSIONS_UNAVAILABLE"
    retryable = True


class ArtifactsUnavailable(SkillError):
    """The place where artifacts are kept does not answer; what was acknowledged before is safe there."""

    code = 503
    reason = "ARTIFACTS_UNAVAILABLE"
    retryable = True


class MissingExtra(SkillError):
    """An optional dependency is not installed; the message has the `pip install` line."""

    code = 501
    reason = "MISSING_EXTRA"

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs an extra; install it with: pip install 'openskills[{extra}]'", extra=extra
        )
        self.extra = extra
