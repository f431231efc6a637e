from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.container.spec import (
    DEFAULT_PATH,
    ContainerImage,
    ContainerOptions,
    ContainerSession,
    build_create_request,
    build_etc_files,
)
from openskills.executors.spec import GIB, MIB

SESSION = ContainerSession("/state/w/tree", "/state/w/container-1", 61000, 61001, "pdf", (("openskills.host", "1"),))


def request(options: ContainerOptions | None = None, image: ContainerImage | None = None) -> dict[str, Any]:
    return build_create_request(options or ContainerOptions(), image or ContainerImage("sha256:1"), SESSION)


def mounts(image: ContainerImage | None = None) -> dict[str, tuple[str, bool]]:
    return {
        mount["Target"]: (mount.get("Source", mount["Type"]), mount["ReadOnly"])
        for mount in request(image=image)["HostConfig"]["Mounts"]
    }


def test_everything_that_keeps_a_command_in_is_asked_for() -> None:
    host = request()["HostConfig"]
    assert {name: host[name] for name in ("NetworkMode", "IpcMode", "CapDrop", "SecurityOpt", "ReadonlyRootfs")} == {
        "NetworkMode": "none",
        "IpcMode": "private",
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": True,
    }
    assert host["Privileged"] is False
    assert host["AutoRemove"] is True
    assert host["LogConfig"]["Type"] == "none"
    assert not {"Binds", "Devices", "CapAdd", "PidMode", "GroupAdd", "ExtraHosts", "VolumesFrom"} & set(host)


def test_the_limits_are_those_of_the_options() -> None:
    options = ContainerOptions(memory_bytes=GIB, cpus=0.5, pids=99, tmp_bytes=5, home_bytes=6, runtime="crun")
    host = request(options)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"]) == (GIB, GIB, 500_000_000, 99)
    assert "size=5," in host["Tmpfs"]["/tmp"]
    assert "size=6," in host["Tmpfs"]["/home/user"]
    assert host["Runtime"] == "crun"
    assert "Runtime" not in request()["HostConfig"]


def test_commands_run_as_the_user_of_the_workspace_with_nothing_of_the_hosts_environment() -> None:
    asked = request(image=ContainerImage("sha256:1", "/opt/bin:/bin"))
    assert (asked["User"], asked["Env"], asked["Image"]) == ("61000:61001", ["PATH=/opt/bin:/bin"], "sha256:1")
    assert asked["Labels"] == {"openskills.host": "1"}
    assert asked["Entrypoint"][0] == "python3"


def test_only_the_workspace_and_the_folder_of_its_skill_are_writable() -> None:
    found = mounts()
    assert {target for target, (_, read_only) in found.items() if not read_only} == {
        "/workspace",
        "/workspace/skills/pdf",
    }
    assert found["/workspace/skills"] == ("/state/w/tree/skills", True)
    assert found["/run/openskills"] == ("/state/w/container-1", True)
    assert not any("docker" in source for source, _ in found.values())


def test_volumes_of_an_image_are_empty_and_closed_and_never_in_the_way_of_ours() -> None:
    found = mounts(ContainerImage("sha256:1", DEFAULT_PATH, ("/data/", "/tmp", "/workspace", "/home/user/")))
    assert found["/data"] == ("tmpfs", True)
    assert found["/workspace"] == ("/state/w/tree", False)
    assert not {"/tmp", "/home/user"} & set(found)


def test_the_user_has_a_name_and_name_servers_are_not_told() -> None:
    files = build_etc_files(61000, 61001)
    assert "user:x:61000:61001:user:/home/user:/bin/bash\n" in files["passwd"]
    assert "user:x:61001:" in files["group"]
    assert files["resolv.conf"] == ""


@pytest.mark.parametrize(
    ("field", "value"),
    [("image", " "), ("memory_bytes", MIB), ("pids", 3), ("cpus", 0.0), ("cpus", float("nan")), ("tmp_bytes", 0)],
)
def test_an_option_that_cannot_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ContainerOptions(**{field: value})
    assert caught.value.field == field
