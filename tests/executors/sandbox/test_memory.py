import os

import pytest

from openskills.executors.sandbox.memory import Sealed, in_memory


def test_what_is_put_into_memory_is_read_from_its_beginning_and_not_inherited() -> None:
    data = os.urandom(3_000_000)
    descriptor = in_memory(data)
    assert not os.get_inheritable(descriptor)
    with open(descriptor, "rb") as file:
        assert file.read() == data


def test_every_reader_of_a_sealed_file_begins_at_its_beginning_and_none_can_change_it() -> None:
    sealed = Sealed(b"the rules")
    first, second = sealed.reading(), sealed.reading()
    sealed.close()
    sealed.close()
    assert os.read(first, 4) == b"the "
    assert os.read(second, 100) == b"the rules"
    assert not os.get_inheritable(first)
    with pytest.raises(PermissionError):
        os.close(os.open(f"/proc/self/fd/{first}", os.O_RDWR | os.O_TRUNC))
    writing = os.open(f"/proc/self/fd/{first}", os.O_RDWR)
    with pytest.raises(PermissionError):
        os.write(writing, b"x")
    for descriptor in (first, second, writing):
        os.close(descriptor)
