import os

from openskills.executors.sandbox.memory import in_memory


def test_what_is_put_into_memory_is_read_from_its_beginning_and_not_inherited() -> None:
    data = os.urandom(3_000_000)
    descriptor = in_memory(data)
    assert not os.get_inheritable(descriptor)
    with open(descriptor, "rb") as file:
        assert file.read() == data
