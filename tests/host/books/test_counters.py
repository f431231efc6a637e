"""Numbers by labels, of one process and of several."""

import json

from openskills.host.books.counters import BUCKETS, Counters, added


def test_what_is_counted_under_one_name_and_label_is_added() -> None:
    counters = Counters()
    counters.add("calls", ("echo", "200"))
    counters.add("calls", ("echo", "200"))
    counters.add("calls", ("echo", "500"), 5.0)
    assert counters.counts == {"calls": {("echo", "200"): 2.0, ("echo", "500"): 5.0}}


def test_a_length_of_time_goes_into_the_first_bucket_that_holds_it() -> None:
    counters = Counters()
    for seconds in (0.0, 0.001, 0.0011, 61.0):
        counters.observe("seconds", (), seconds)
    spread = counters.spreads["seconds"][()]
    assert spread[:2] == [2.0, 1.0]
    assert spread[len(BUCKETS)] == 1.0
    assert sum(spread[:-1]) == 4.0
    assert spread[-1] == 0.0 + 0.001 + 0.0011 + 61.0


def test_too_many_different_labels_are_counted_together() -> None:
    counters = Counters(most=3)
    for number in range(10):
        counters.add("calls", (str(number), "x"))
        counters.observe("seconds", (str(number),), 0.5)
    assert len(counters.counts["calls"]) == len(counters.spreads["seconds"]) == 4
    assert counters.counts["calls"]["other", "other"] == 7.0
    assert sum(counters.spreads["seconds"]["other",][:-1]) == 7.0


def test_the_numbers_of_several_processes_are_added_through_json() -> None:
    first, second = Counters(), Counters()
    for counters in (first, second):
        counters.add("calls", ("echo", "200"), 2.0)
        counters.observe("seconds", ("echo",), 0.5)
    second.add("calls", ("sum", "200"))
    second.observe("waits", (), 0.0)
    total = added(json.loads(json.dumps(one.plain())) for one in (first, second))
    assert total.counts == {"calls": {("echo", "200"): 4.0, ("sum", "200"): 1.0}}
    assert sum(total.spreads["seconds"]["echo",][:-1]) == 2.0
    assert total.spreads["seconds"]["echo",][-1] == 1.0
    assert sum(total.spreads["waits"][()]) == 1.0


def test_buckets_of_another_version_are_left_out() -> None:
    total = added([{"counts": {}, "spreads": {"seconds": [[["echo"], [1.0, 2.0]]]}}])
    assert sum(total.spreads["seconds"]["echo",]) == 0.0
