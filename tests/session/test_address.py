"""Addresses are shown without what nobody may see."""

import pytest

from openskills.session.address import place_of


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://erika:geheim@db.example:5432/app?sslmode=geheim", "postgresql://db.example:5432/app"),
        ("redis://:geheim@127.0.0.1/0", "redis://127.0.0.1/0"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("postgresql:///app?host=/run/geheim", "postgresql:///app"),
        ("postgresql://erika:ge/heim@db/app", "postgresql://…"),
        ("postgresql://erika:ge@heim@db/app", "postgresql://…"),
        ("postgresql://erika:ge#heim@db/app", "postgresql://…"),
        ("postgresql://erika:ge?heim@db/app", "postgresql://…"),
        ("redis://erika:heim@[::1", "redis://…"),
        ("redis://erika:heim@db:port/0", "redis://…"),
        ("erika:geheim@db", "(an address that is none)"),
        ("erika:geheim@db://x", "(an address that is none)"),
    ],
)
def test_an_address_is_shown_without_user_password_and_options(url: str, shown: str) -> None:
    assert place_of(url) == shown
    assert "heim" not in shown
