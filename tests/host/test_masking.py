"""Secrets are in nothing that a skill says."""

from pathlib import Path
from typing import Any

import pytest

from openskills.host.masking import masked_listener, masked_outcome
from openskills.host.result import Failure, Outcome, failed, ok
from openskills.host.runner import Call, Emitted
from tests.host.hosting import eventually, manifest, served

SECRETS = {"TOKEN": "hunter22"}


def test_text_is_masked_wherever_it_is() -> None:
    outcome = ok({"a": ["x hunter22", {"hunter22": 1}], "n": None}, version="hunter22", notes={"b": ("hunter22",)})
    found = masked_outcome(outcome, SECRETS)
    assert found.data == {"a": ["x [secret TOKEN]", {"[secret TOKEN]": 1}], "n": None}
    assert (found.version, found.notes) == ("[secret TOKEN]", {"b": ["[secret TOKEN]"]})


def test_a_failure_keeps_everything_else() -> None:
    outcome = failed(Failure(503, "hunter22 is wrong", {"reason": "X", "n": 5, "key": "hunter22"}, 2.0))
    wanted = Failure(503, "[secret TOKEN] is wrong", {"reason": "X", "n": 5, "key": "[secret TOKEN]"}, 2.0)
    assert masked_outcome(outcome, SECRETS).failure == wanted


@pytest.mark.parametrize("secrets", [{}, {"SHORT": "abc"}])
def test_where_there_is_nothing_to_hide_nothing_is_looked_at(secrets: dict[str, str]) -> None:
    outcome = ok({"a": "abc"})
    shown: list[Emitted] = []
    assert masked_outcome(outcome, secrets) is outcome
    assert masked_listener(shown.append, secrets) == shown.append


def test_what_is_nested_too_deeply_to_be_looked_through_is_not_shown() -> None:
    data: dict[str, Any] = {"key": "hunter22"}
    for _ in range(100_000):
        data = {"in": data}
    failure = masked_outcome(ok(data), SECRETS).failure
    assert failure is not None
    assert (failure.code, failure.details["reason"]) == (502, "BAD_SKILL_OUTPUT")


def test_a_listener_is_told_the_names() -> None:
    shown: list[Emitted] = []
    masked_listener(shown.append, SECRETS)(Emitted("progress", {"text": "hunter22"}))
    assert shown == [Emitted("progress", {"text": "[secret TOKEN]"})]


async def leaky(call: Call) -> Outcome:
    """Says its secret wherever it can."""
    secret = call.secrets["MYSEC"]
    if call.listener is not None:
        call.listener(Emitted("progress", {"with": secret}))
    if call.input.get("fails"):
        return failed(Failure(500, f"no {secret}", {"reason": "INTERNAL", "x": secret}), notes={"m": secret})
    return ok({"d": secret}, notes={"m": secret})


def test_a_secret_gets_neither_over_the_wire_nor_into_a_file(tmp_path: Path) -> None:
    manifest(tmp_path, "leaky", "secrets: [MYSEC]\n")
    database = tmp_path / "kept" / "host.db"
    environment = {"MYSEC": "hunter22-hunter22"}
    with served(tmp_path, {"leaky": leaky}, environment=environment, host_history=database) as host:
        said: list[str] = []
        for value in ({}, {"fails": True}):
            replayed = {"Idempotency-Key": f"k{len(value)}"}
            said += [host.invoke("leaky", value, headers=headers).text for headers in ({}, replayed, replayed)]
            answer = host.invoke("leaky", value, headers={"Prefer": "respond-async"})
            run = answer.headers["location"]
            eventually(lambda run=run: host.client.get(run).json()["data"]["result"] is not None)
            said += [answer.text, host.client.get(run).text, host.client.get(f"{run}/events").text]
            said.append(host.client.post("/skills/leaky:stream", json={"input": value}).text)
    assert sum("[secret MYSEC]" in text for text in said) == len(said) - 2
    assert "hunter22" not in "".join(said)
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert database in kept
    assert not [file.name for file in kept if b"hunter22" in file.read_bytes()]
