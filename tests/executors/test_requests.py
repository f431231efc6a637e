import pytest

from openskills.executors.requests import RunRequest, read_warm_modules


@pytest.mark.parametrize(
    ("metadata", "modules"),
    [
        ({"openskills-warm": "pandas numpy"}, ("pandas", "numpy")),
        ({"openskills-warm": "pandas,numpy"}, ("pandas", "numpy")),
        ({"openskills-warm": ""}, ()),
        ({"openskills-warm": 3}, None),
        ({}, None),
    ],
)
def test_a_skill_says_in_its_metadata_what_to_load_ahead(
    metadata: dict[str, object], modules: tuple[str, ...] | None
) -> None:
    assert read_warm_modules(metadata) == modules


def test_a_request_does_not_show_its_input() -> None:
    assert "password" not in repr(RunRequest("true", stdin=b"password"))
