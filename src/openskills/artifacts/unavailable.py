"""A store of artifacts that cannot be used just now."""

from openskills.errors import SkillError


class ArtifactsUnavailable(SkillError):
    """The place where artifacts are kept does not answer; what was acknowledged before is safe there."""

    code = 503
    reason = "ARTIFACTS_UNAVAILABLE"
    retryable = True
