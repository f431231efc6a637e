"""Tools that are not there."""

from openskills.tools.unknown import unknown_tool


def test_the_nearest_tools_are_named_or_all_of_them() -> None:
    assert "did you mean skill_load?" in unknown_tool("load_skill", ["skill_load", "read_file"]).message
    assert "there are read_file" in unknown_tool("zzz", ["read_file"]).message
    assert (
        "skill_run is not available in this session; there are read_file"
        in unknown_tool("skill_run", ["read_file"]).message
    )
    assert "there are none" in unknown_tool("zzz", []).message
    assert len(unknown_tool("z" * 10_000, []).message) < 200
