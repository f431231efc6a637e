import pytest

from benchmarks.sampling import Series, Way, growth, in_turns, timed


def test_the_median_and_the_quartiles_do_not_mind_one_wild_time() -> None:
    series = Series((1.0, 2.0, 3.0, 4.0, 1000.0))
    assert series.median == 3.0
    assert series.quartiles == (2.0, 4.0)
    assert series.at(0.95) == 1000.0


async def test_every_round_begins_with_another_way_and_the_first_rounds_do_not_count() -> None:
    order: list[str] = []

    def way(name: str) -> Way:
        async def once() -> float:
            order.append(name)
            return float(len(order))

        return once

    found = await in_turns({"a": way("a"), "b": way("b"), "c": way("c")}, 2, before=1)
    assert "".join(order) == "abcbcacab"
    assert found["a"].seconds == (6.0, 8.0)


async def test_a_way_is_timed_from_its_beginning_to_its_end() -> None:
    done: list[bool] = []

    async def act() -> None:
        done.append(True)

    assert await timed(act)() >= 0.0
    assert done == [True]


@pytest.mark.parametrize(("exponent", "grown"), [(0.0, 1.0), (1.0, 100.0), (0.5, 10.0)])
def test_growth_is_that_of_the_power_law_behind_the_costs(exponent: float, grown: float) -> None:
    points = [(size, 3.0 * size**exponent) for size in (20, 200, 2000)]
    assert growth(points) == pytest.approx(grown)
