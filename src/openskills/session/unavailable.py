"""A store of conversations that cannot be used just now."""

from openskills.errors import SkillError


class SessionsUnavailable(SkillError):
    """The place where conversations are kept does not answer, or is busy; what was acknowledged before is safe there.

    The call can be repeated as it is: an event that did arrive is not stored again.
    """

    code = 503
    reason = "SESSIONS_UNAVAILABLE"
    retryable = True
