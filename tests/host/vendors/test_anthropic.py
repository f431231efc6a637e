"""Three eras of the unmodified Anthropic SDK against a real host, with only `base_url` changed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.hosting import Served
from tests.host.vendors.uploading import WRITER, key_in, uploading_host

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "sdk_oracles.sh"
PROGRAM = Path(__file__).with_name("anthropic_client.py")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("anthropic")


@pytest.fixture(scope="module")
def key(directory: Path) -> str:
    return key_in(directory, "ada", scopes=WRITER)


@pytest.fixture(scope="module")
def host(directory: Path, key: str) -> Iterator[Served]:
    assert key
    with uploading_host(directory) as one:
        yield one


def find_python(version: str) -> str:
    """The interpreter that has this version. Where it is missing the test is skipped; in CI it fails."""
    if version == "2.8.0":
        return sys.executable
    found = subprocess.run([SCRIPT, "--directory"], capture_output=True, text=True, check=True).stdout.strip()
    if found == "none":
        pytest.skip("SDK_ORACLES=none")
    if not Path(found, "complete").exists():
        reason = "needs an older SDK; install it with scripts/sdk_oracles.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason} (CI=true, so this is a failure and not a skip)")
        pytest.skip(reason)
    return str(Path(found, version, "bin/python"))


@pytest.mark.parametrize("version", ["0.75.0", "1.17.0", "2.8.0"])
def test_the_sdk_can_create_list_download_and_delete(version: str, host: Served, key: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [find_python(version), str(PROGRAM), host.url, key],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout)
    assert seen["sdk"] == version
    assert seen["request_ids"]
    assert (seen["label"], seen["source"], seen["latest"]) == ("The Greeter", "custom", True)
    assert seen["second"] == ["greeter", "Says Moin"]
    assert (seen["versions"], seen["listed"], seen["of_anthropic"], seen["named_latest"]) == (2, True, 0, True)
    # Newer SDKs have a class for it, which they find by `error_code`.
    taken = "BetaSkillNameTakenError" if version == "2.8.0" else "ConflictError"
    assert seen["taken"][:3] == [taken, 409, "conflict_error"]
    assert seen["broken"][:3] == ["BadRequestError", 400, "invalid_request_error"]
    assert "SKILL.md:2" in seen["broken"][3]
    assert seen["unknown"][:3] == ["NotFoundError", 404, "not_found_error"]
    assert seen["stranger"][:3] == ["AuthenticationError", 401, "authentication_error"]
    assert seen["file"] == ["data.txt", 9, "some text"]
    assert seen["files"]
    assert seen["file_deleted"]
    assert seen["gone"] == "skill_deleted"
    assert set(seen["deleted"]) == {"skill_version_deleted"}
    if version == "2.8.0":
        assert seen["named"]
        assert 3599 < seen["expires"] <= 3600
    if version == "0.75.0":
        assert seen["has_versions"][1] == 400
    else:
        assert seen["content"] == ["greeter/SKILL.md", "greeter/references/more.md"]
