"""The collector pauses and goes on."""

import gc

import pytest

from openskills.catalog.collector import collector_paused


def test_the_collector_goes_on_even_after_a_failure() -> None:
    def fail() -> None:
        with collector_paused():
            assert not gc.isenabled()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert gc.isenabled()


def test_whoever_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
