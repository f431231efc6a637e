"""What is offered at one moment."""

from pathlib import Path

import pytest

from openskills.errors import InvalidSkill, UnknownSkill
from openskills.host.registration import Registration
from openskills.host.registry.entries import Changes, Entry, Offer
from openskills.skillmd.problem import Problem


def ready(skill_id: str, *, origin: str = "", rank: int = 0, version: str = "1") -> Entry:
    path = Path(origin or f"{skill_id}.yaml")
    return Entry(skill_id, Registration(skill_id, "inproc", "a:b", version), origin=path, rank=rank)


def broken(skill_id: str, *, origin: str = "broken.yaml", rank: int = 0) -> Entry:
    return Entry(skill_id, None, (Problem("field-value", "x: is wrong"),), "broken", Path(origin), rank=rank)


def test_ids_are_found_exactly_first_and_then_with_the_other_dash() -> None:
    offer = Offer([ready("file_search"), ready("log-transform"), ready("a-b"), ready("a_b")])
    assert offer.get("file-search").id == "file_search"
    assert offer.get("log_transform").id == "log-transform"
    assert (offer.get("a-b").id, offer.get("a_b").id) == ("a-b", "a_b")


def test_what_is_known_is_found_without_a_complaint() -> None:
    offer = Offer([ready("file_search"), broken("bad")])
    assert offer.known("file-search") is offer.get("file_search")
    assert offer.known("bad") is offer.known("nope") is None


def test_an_unknown_id_has_the_nearest_ones() -> None:
    offer = Offer([ready("calculator"), ready("echo")])
    with pytest.raises(UnknownSkill) as raised:
        offer.get("calculater")
    assert raised.value.near == ("calculator",)
    for hostile in ("", "x" * 100_000, "../../etc", "\0", "é" * 70):
        with pytest.raises(UnknownSkill):
            offer.get(hostile)


def test_a_broken_one_is_an_entry_and_no_registration() -> None:
    offer = Offer([broken("bad"), ready("good")])
    assert [registration.id for registration in offer.registrations] == ["good"]
    assert offer.entry("bad").status == "broken"
    with pytest.raises(InvalidSkill, match="the manifest of 'bad' is broken: x: is wrong") as raised:
        offer.get("bad")
    assert len(raised.value.problems) == 1


def test_of_equal_ids_the_later_source_counts_and_the_other_says_which() -> None:
    offer = Offer([ready("x", origin="one.yaml"), ready("x", origin="two.yaml", rank=1, version="2")])
    assert offer.get("x").version == "2"
    loser = next(entry for entry in offer.entries if entry.status == "broken")
    assert loser.origin == Path("one.yaml")
    assert loser.problems[-1].message == "id: 'x' is taken by two.yaml; give this one another id"
    assert len(offer.registrations) == 1


def test_of_equal_ids_in_one_source_the_first_by_name_counts() -> None:
    offer = Offer([ready("x", origin="b.yaml", version="2"), ready("x", origin="a.yaml")])
    assert offer.get("x").version == "1"


def test_a_broken_one_takes_no_id_from_a_good_one() -> None:
    assert Offer([broken("x", rank=9), ready("x")]).get("x").id == "x"


def test_changes_are_what_came_went_and_is_different() -> None:
    before = Offer([ready("a"), ready("b"), ready("c")])
    after = Offer([ready("b"), ready("c", version="2"), ready("d")])
    assert after.since(before) == Changes(added=("d",), removed=("a",), changed=("c",))
    assert not after.since(after)
    assert after.stamp != before.stamp
    assert Offer([ready("c"), ready("b"), ready("a")]).stamp == before.stamp
