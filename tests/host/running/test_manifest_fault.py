"""What is wrong with a manifest is not the caller's fault."""

from openskills.host.result import Failure
from openskills.host.running.manifest_fault import ManifestFault


def test_a_fault_of_a_manifest_names_the_field_and_does_not_blame_the_caller() -> None:
    failure = Failure.of(ManifestFault("entry", "is no URL"))
    assert (failure.code, failure.message) == (422, "entry: is no URL")
    assert failure.details == {"reason": "INVALID_SKILL", "retryable": False, "field": "entry"}
