"""What a command is started with."""

import json

import pytest

from openskills.host.registration import Registration
from openskills.host.running.command_input import arguments, call_input
from openskills.host.running.manifest_fault import ManifestFault


def test_arguments_are_texts() -> None:
    assert arguments(Registration("s", "cli:exec", "/s", "1", options={"args": ["-n", 5]})) == ("-n", "5")
    assert arguments(Registration("s", "cli:exec", "/s", "1")) == ()


@pytest.mark.parametrize("args", ["-n 5", 5])
def test_what_is_no_list_is_no_arguments(args: object) -> None:
    with pytest.raises(ManifestFault, match="list"):
        arguments(Registration("s", "cli:exec", "/s", "1", options={"args": args}))


@pytest.mark.parametrize("value", [{"a": "ä"}, {"n": 2**80}, {"s": "\ud800"}, {}])
def test_every_input_can_be_written(value: dict[str, object]) -> None:
    assert json.loads(call_input(value)) == {"input": value}
