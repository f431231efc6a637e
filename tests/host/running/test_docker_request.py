"""The container of a call."""

from pathlib import Path

import pytest

from openskills.host.registration import HostLimits, Registration
from openskills.host.running.docker_request import container_environment, container_request
from openskills.host.running.manifest_fault import ManifestFault


def test_a_container_is_shut_in() -> None:
    limits = HostLimits(memory_bytes=100, processes=5)
    request = container_request(Registration("s", "docker", "image:1", "1", limits=limits), {"A": "1"}, "mark")
    host = request["HostConfig"]
    assert request["User"] == "65534:65534"
    assert request["NetworkDisabled"] is True
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert (host["Memory"], host["PidsLimit"], host["Mounts"]) == (100, 5, [])
    assert request["Env"] == ["A=1"]


def test_the_root_is_mounted_read_only_unless_it_is_writable() -> None:
    for writable in (False, True):
        skill = Registration("s", "docker", "i", "1", allowed_root=Path("/d"), writable=writable)
        (mount,) = container_request(skill, {}, "")["HostConfig"]["Mounts"]
        assert (mount["Source"], mount["Target"], mount["ReadOnly"]) == ("/d", "/data", not writable)


@pytest.mark.parametrize("user", ["root", "0", "0:5", 0])
def test_root_is_refused(user: object) -> None:
    with pytest.raises(ManifestFault, match="root"):
        container_request(Registration("s", "docker", "i", "1", options={"user": user}), {}, "")


def test_variables_are_those_of_every_skill_with_the_paths_of_the_container() -> None:
    env = container_environment(Registration("s", "docker", "i", "1", allowed_root=Path("/d")), {"X": "1"})
    assert (env["OPENSKILL_ALLOWED_ROOT"], env["X"], "PATH" in env) == ("/data", "1", False)
