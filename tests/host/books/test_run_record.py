"""One row of the history."""

import hashlib

from openskills.errors import InvalidArgument
from openskills.host.books.run_record import LARGEST_CONTENT, RunRecord, content_to_keep, id_prefix, new_run_id
from tests.host.results import record, refused, succeeded


def test_a_success_is_recorded_with_sizes_and_the_digest_of_the_input() -> None:
    body = b'{"input": {"text": "hi"}}'
    found = record(succeeded(), body=body, began=1_700_000_000.0)
    assert (found.success, found.code, found.message) == (True, 200, "")
    assert (found.bytes_in, found.bytes_out) == (len(body), 9)
    assert found.input_digest == hashlib.sha256(body).hexdigest()
    assert (found.input, found.output) == (None, None)


def test_a_failure_is_recorded_with_its_message_cut_where_it_is_long() -> None:
    found = record(refused(error=InvalidArgument("text", "x" * 5_000)))
    assert (found.success, found.code) == (False, 400)
    assert len(found.message) == 1_000


def test_for_programs_times_are_text_and_contents_are_there_only_when_kept() -> None:
    found = record(began=1_700_000_000.25).plain()
    assert found["began"] == "2023-11-14T22:13:20.250+00:00"
    assert "input" not in found
    kept = RunRecord("id", "t", "ci", "echo", "1", "inproc", 0.0, 1.0, True, 200, input=b"\xff{}", output=None)
    assert kept.plain()["input"] == "�{}"


def test_ids_cannot_be_guessed_and_are_in_the_order_of_time() -> None:
    ids = [new_run_id(at) for at in (0.0, 1.0, 1_700_000_000.0, 1_700_000_000.001, 4_000_000_000.0)]
    assert ids == sorted(ids)
    assert len({new_run_id(5.0) for _ in range(100)}) == 100
    assert id_prefix(1_700_000_000.0) <= ids[2] < id_prefix(1_700_000_000.001) <= ids[3]


def test_secrets_are_never_kept() -> None:
    content = b'{"echoed": "the word is hunter2!"}'
    assert content_to_keep(content, {"TOKEN": "hunter2!"}) == b'{"echoed": "the word is [secret TOKEN]"}'
    kept = record().with_content(b'{"input": "hunter2!"}', content, {"TOKEN": "hunter2!"})
    assert (kept.input, b"hunter2!" in (kept.output or b"")) == (b'{"input": "[secret TOKEN]"}', False)


def test_not_too_much_of_a_content_is_kept_and_the_rest_is_counted() -> None:
    found = content_to_keep(b"x" * (LARGEST_CONTENT + 1_500), {})
    assert found.startswith(b"x" * LARGEST_CONTENT)
    assert found.endswith(b"[... 1,500 more bytes]")
