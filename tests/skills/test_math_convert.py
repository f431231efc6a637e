"""Units: exact by definition, never guessed."""

from pathlib import Path

import pytest

from tests.skills.shipped import fault, misuse, run_script


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("5 mile km", "5 mile = 8.04672 km"),
        ("98.6 F C", "98.6 F = 37 C"),
        ("-40 C F", "-40 C = -40 F"),
        ("0 K F", "0 K = -459.67 F"),
        ("3/4 inch mm", "3/4 inch = 19.05 mm"),
        ("5 ft in", "5 ft = 60 inch"),
        ("5 ft to in", "5 ft = 60 inch"),
        ("10 GiB GB", "10 GiB = 10.73741824 GB"),
        ("100 Mbps MB/s", "100 Mbit/s = 12.5 MB/s"),
        ("3 亩 m2", "3 亩 = 2000 m2"),
        ("10 斤 公斤", "10 斤 = 5 kg"),
        ("1 KM Miles", "1 km ≈ 0.621371192237334 mile"),
        ("32 psi bar", "32 psi ≈ 2.20632233381388 bar"),
        ("180 deg rad", "180 deg ≈ 3.14159265358979 rad"),
        ("36 km/h m/s", "36 km/h = 10 m/s"),
        ("1 kWh kcal", "1 kWh ≈ 860.420650095602 kcal"),
        ("1 acre m2", "1 acre = 4046.8564224 m2"),
        ("1 gal-us l", "1 gal-us = 3.785411784 l"),
    ],
)
def test_units_are_converted(tmp_path: Path, words: str, said: str) -> None:
    done = run_script("math/scripts/convert.py", "--", *words.split(), cwd=tmp_path)
    assert (done.stdout, done.stderr) == (said + "\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("1 km kg", "unit: km is a unit of length, kg one of mass"),
        ("1 gallons l", "unit: 'gallons' may be several things; use gal-us or gal-uk"),
        ("1 month day", "unit: 'month' may be several things; use day; a month has no fixed length"),
        ("1 metr km", "unit: 'metr' is not known (--list shows all)"),
        ("1 kilomiles km", "unit: 'kilomiles' is not known"),
        ("x km m", "expression: 'x' is not known"),
        ("1<2 km m", "amount: a comparison is no amount"),
        ("1e99999 km m", "expression: '1e99999' is too large"),
    ],
)
def test_what_cannot_be_converted_is_said(tmp_path: Path, words: str, said: str) -> None:
    assert fault(run_script("math/scripts/convert.py", *words.split(), cwd=tmp_path), 2).startswith(said)


def test_units_are_listed_by_kind(tmp_path: Path) -> None:
    whole = run_script("math/scripts/convert.py", "--list", cwd=tmp_path).stdout.splitlines()
    assert len(whole) == 15
    assert run_script("math/scripts/convert.py", "--list", "temperature", cwd=tmp_path).stdout.startswith(
        "temperature: K/kelvin, C/"
    )
    assert fault(run_script("math/scripts/convert.py", "--list", "taste", cwd=tmp_path), 2).startswith(
        "--list: there is no 'taste'"
    )
    assert misuse(run_script("math/scripts/convert.py", "5", "km", cwd=tmp_path)).startswith("expected an amount")
