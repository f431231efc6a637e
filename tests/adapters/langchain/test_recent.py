"""What was made of the last lists."""

from openskills.adapters.langchain.recent import Recent


def test_it_is_made_once_for_the_same_list_under_the_same_circumstances() -> None:
    made: list[int] = []
    recent, items = Recent[int](), ["a"]

    def make() -> int:
        made.append(1)
        return len(made)

    assert [recent.get(items, "x", make) for _ in range(3)] == [1, 1, 1]
    assert recent.get(items, "y", make) == 2
    assert recent.get(["a"], "x", make) == 3, "an equal list is another one"
    items.append("b")
    assert recent.get(items, "x", make) == 4


def test_only_so_many_are_kept() -> None:
    recent = Recent[str](kept=2)
    lists = [[str(number)] for number in range(5)]
    for one in lists:
        recent.get(one, None, lambda one=one: one[0])
    assert recent.get(lists[0], None, lambda: "made again") == "made again"
    assert recent.get(lists[0], None, lambda: "not this time") == "made again"
