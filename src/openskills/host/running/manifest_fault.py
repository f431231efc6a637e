"""What is wrong with a manifest and is seen only when its skill is to be called. Pure."""

from openskills.errors import InvalidSkill


class ManifestFault(InvalidSkill):
    """A field of a manifest cannot be used. Whoever called is not to blame."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.details = {"field": field}
