"""The requests of a conversation, added up."""

from typing import Any

from openskills.prompt.ledger import Ledger, account
from openskills.prompt.shown import Layer, Part


def characters(text: str) -> int:
    return len(text)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_each_request_is_compared_with_the_one_before() -> None:
    ledger = Ledger()
    messages = [user("one")]
    assert ledger.record(messages, (), characters).before == 0
    messages.append(user("three"))
    second = ledger.record(messages, (), characters)
    assert (second.before, second.unchanged, second.total) == (3, 3, 8)
    assert ledger.record(messages, (), characters).unchanged == 8
    assert ledger.requests == 3


def test_messages_that_are_changed_after_they_were_sent_do_not_change_what_was_sent() -> None:
    ledger = Ledger()
    messages = [user("one"), user("two")]
    ledger.record(messages, (), characters)
    messages[0]["content"] = "cleared"
    assert ledger.record(messages, (), characters).unchanged == 0


def test_a_request_may_be_accounted_for_elsewhere() -> None:
    ledger = Ledger()
    ledger.add(account(None, [user("one")], [Part(Layer.BODY, "pdf", "on")], characters))
    ledger.add(account([user("one")], [user("one")], [Part(Layer.BODY, "docx", "o")], characters))
    assert ledger.sum.total == 6
    assert ledger.sum.by_layer == {**dict.fromkeys(Layer, 0), Layer.BODY: 3, Layer.OTHER: 3}
    assert ledger.sum.by_skill == {"pdf": 2, "docx": 1}
    assert (ledger.sum.unchanged, ledger.sum.before, ledger.sum.share) == (3, 3, 1.0)


def test_only_the_last_requests_are_kept_but_all_are_added_up() -> None:
    ledger = Ledger(most=2)
    for _ in range(5):
        ledger.record([user("one")], (), characters)
    assert (ledger.requests, len(ledger.last), ledger.sum.total) == (5, 2, 15)
    assert [line.split()[0] for line in ledger.table().splitlines()] == ["request", "4", "5", "all"]


def test_another_counter_counts_anew() -> None:
    ledger = Ledger()
    assert ledger.record([user("four")], ()).total == 1
    assert ledger.record([user("four")], (), characters).total == 4


def test_the_table_can_be_read() -> None:
    ledger = Ledger()
    parts = [
        Part(Layer.OVERVIEW, "", "x" * 4_000),
        Part(Layer.BODY, "pdf", "y" * 400),
        Part(Layer.DOCS, "docx", "z" * 800),
    ]
    messages = [user("x" * 4_000), user("y" * 400), user("z" * 800)]
    ledger.record(messages[:2], parts[:2])
    ledger.record(messages, parts)
    assert ledger.table() == (
        "request  tokens  overview  guidance  body  docs  fallback  other  unchanged\n"
        "      1   1,100     1,000         0   100     0         0      0          -\n"
        "      2   1,300     1,000         0   100   200         0      0     100.0%\n"
        "    all   2,400     2,000         0   200   200         0      0     100.0%\n"
        "docx: 200\n"
        "pdf: 200\n"
        "All tokens are estimated."
    )


def test_an_empty_ledger_has_a_table_too() -> None:
    assert Ledger().table().splitlines()[1].split() == ["all", "0", "0", "0", "0", "0", "0", "0", "-"]
