"""An address chooses a store; what is wrong with it is said without a secret."""

import subprocess
import sys
from pathlib import Path

import pytest

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.open import open_artifact_store, open_object_store
from openskills.artifacts.s3 import S3ArtifactStore
from openskills.artifacts.store import Scope, read_artifact
from openskills.errors import InvalidArgument
from openskills.settings import Settings
from tests.servers.s3 import S3Server

SCOPE = Scope("app", "erika", "s1")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path / "home")})


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (None, FileArtifactStore),
        ("memory:", MemoryArtifactStore),
        ("memory://", MemoryArtifactStore),
        ("file:///nowhere/at%20all", FileArtifactStore),
        ("s3://bucket", S3ArtifactStore),
        ("s3://bucket/pre/fix/?region=eu-central-1&endpoint=https://host:9000", S3ArtifactStore),
    ],
)
def test_the_scheme_chooses_and_nothing_is_opened(url: str | None, kind: type, settings: Settings) -> None:
    assert isinstance(open_artifact_store(url, settings), kind)
    assert not settings.home.exists()


async def test_files_are_where_the_address_says(tmp_path: Path, settings: Settings) -> None:
    await open_artifact_store(f"file://{tmp_path}/a%20b%3F", settings).put(SCOPE, "a", b"x")
    assert (tmp_path / "a b?" / "format").is_file()
    await open_artifact_store(None, settings).put(SCOPE, "a", b"x")
    assert (settings.state_dir / "artifacts" / "format").is_file()


async def test_storage_that_machines_share_has_the_artifacts_of_all(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.url(s3_server.new_bucket(), "team")
    for storage in (str(tmp_path / "shared"), f"file://{tmp_path}/other", bucket):
        machines = [
            Settings.from_env({**s3_server.environment, "HOME": str(tmp_path / name), "OPENSKILL_STORAGE": storage})
            for name in ("a", "b")
        ]
        await open_artifact_store(None, machines[0]).put(SCOPE, "a", b"x")
        assert await read_artifact(open_artifact_store(None, machines[1]), SCOPE, "a") == b"x"
        # Beside what else is there, such as saved workspaces.
        objects = open_object_store(storage, machines[0])
        await objects.put("workspaces/one", b"w")
        assert [one.name for one in await objects.list("")] == ["workspaces/one"]
    assert (tmp_path / "shared" / "artifacts" / "format").is_file()
    assert len(await open_artifact_store(bucket.replace("/team", "/team/artifacts"), machines[0]).list(SCOPE)) == 1


async def test_a_bucket_is_used_with_the_credentials_of_the_settings(s3_server: S3Server) -> None:
    settings = Settings.from_env(s3_server.environment)
    url = s3_server.url(s3_server.new_bucket(), "some%20where")
    await open_artifact_store(url, settings).put(SCOPE, "a", b"x")
    assert await read_artifact(open_artifact_store(url, settings), SCOPE, "a") == b"x"


def test_an_endpoint_in_the_address_wins_over_one_in_the_environment(s3_server: S3Server) -> None:
    elsewhere = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    program = """
import sys
from openskills.artifacts.open import open_artifact_store, open_object_store
from openskills.artifacts.store import Scope
from openskills.settings import Settings
from openskills.sync import run
print(run(open_artifact_store(sys.argv[1], Settings.from_env()).list(Scope("a", "u", "s"))))
"""
    url = s3_server.url(s3_server.new_bucket())
    environment = {**s3_server.environment, **elsewhere}
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, env=environment)
    assert done.stdout == "()\n", done.stderr


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "unsupported URL; use one of: memory:, file:///absolute"),
        ("memory:geheim", "unsupported URL"),
        ("geheim/dir", "unsupported URL"),
        ("file:geheim", "unsupported URL"),
        ("file://geheim/dir", "unsupported URL"),
        ("gs://geheim", "unsupported URL"),
        ("file:///dir?x", "invalid directory .*; write"),
        ("s3://", "invalid bucket name"),
        ("s3://b", "invalid bucket name"),
        ("s3://a b/x", "invalid bucket name"),
        ("s3://key:geheim@bucket/x", "set AWS_ACCESS_KEY_ID"),
        ("s3://key:geheim%40bucket/x", "set AWS_ACCESS_KEY_ID"),
        ("s3://bucket/x?endpoint=http://key:geheim@host", "set AWS_ACCESS_KEY_ID"),
        ("s3://bucket/x?secret_access_key=geheim", "unknown option 'secret_access_key'; expected endpoint or region"),
        ("s3://bucket/x?endpoint=host:9000", "use one such as https://host:9000"),
        ("s3://bucket/a/../b", "invalid key prefix"),
        ("s3://bucket/a//b", "invalid key prefix"),
        ("s3://bucket/a%0Ab", "invalid key prefix"),
    ],
)
def test_an_invalid_address_is_refused_without_a_secret(url: str, said: str, settings: Settings) -> None:
    with pytest.raises(InvalidArgument, match=said) as raised:
        open_artifact_store(url, settings)
    assert raised.value.field == "artifacts"
    assert "geheim" not in str(raised.value)


def test_a_missing_extra_is_named_with_the_command_that_installs_it() -> None:
    program = """
import sys
sys.modules["obstore"] = None
from openskills.artifacts.open import open_artifact_store, open_object_store
from openskills.errors import MissingExtra
from openskills.settings import Settings
try:
    open_artifact_store("s3://bucket", Settings.from_env({"HOME": "/nonexistent"}))
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("pip install 'openskill-runtime[s3]'\n")
