"""From an address to a store of artifacts; only what is chosen is imported."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import ArtifactStore
from openskills.errors import InvalidArgument, MissingExtra
from openskills.settings import Settings

FORMS = ("memory:", "file:///absolute/directory", "s3://bucket/prefix?endpoint=https://host&region=eu-central-1")
"""What can be asked for."""

DEFAULT_DIRECTORY = "artifacts"

_FIELD = "artifacts"
_OPTIONS = ("endpoint", "region")
_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_DEFAULT_REGION": "region",
    "AWS_REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_ENDPOINT_URL_S3": "endpoint",
}


def open_artifact_store(url: str | None, settings: Settings) -> ArtifactStore:
    """The store at an address of one of the `FORMS`; without one, files in the directory for state.

    Nothing is opened yet. Credentials for S3 are found as AWS's own tools find them, and are not part of the address.
    Raises `InvalidArgument` for an address of another form, and `MissingExtra` when what S3 needs is not installed.
    """
    if url is None:
        return FileArtifactStore(settings.state_dir / DEFAULT_DIRECTORY)
    scheme, _, rest = url.partition(":")
    if scheme == "memory" and rest in ("", "//"):
        return MemoryArtifactStore()
    if scheme == "file" and rest.startswith("///"):
        return FileArtifactStore(_parse_directory(rest.removeprefix("//")))
    if scheme == "s3" and rest.startswith("//"):
        return _open_s3(url, settings.environment)
    raise InvalidArgument(_FIELD, f"the address has none of these forms: {', '.join(FORMS)}")


def _parse_directory(path: str) -> Path:
    if "?" in path or "#" in path or "\0" in unquote(path):
        raise InvalidArgument(_FIELD, f"{path!r} is no directory; in paths write ? # % as %3F %23 %25")
    return Path(unquote(path))


def _open_s3(url: str, environment: Mapping[str, str]) -> ArtifactStore:
    # Before anything of it is repeated in an error.
    if "@" in unquote(url):
        raise InvalidArgument(
            _FIELD,
            "credentials do not belong into the address of a bucket; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    place, _, query = url.removeprefix("s3://").partition("?")
    bucket, _, prefix = place.partition("/")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{1,254}", bucket, re.ASCII):
        raise InvalidArgument(_FIELD, f"{bucket!r} is no name of a bucket; write an address such as s3://bucket/prefix")
    config = {**_config_from_environment(environment), **_parse_options(query)}
    if "endpoint" in config:
        _check_endpoint(config["endpoint"])
        # The same under the name that would win over it, if the process had it in its environment.
        config["aws_endpoint_url_s3"] = config["endpoint"]
    if find_spec("obstore") is None:
        raise MissingExtra("s3", "an artifact store in a bucket")
    from openskills.artifacts.s3 import S3ArtifactStore

    return S3ArtifactStore(bucket, _check_prefix(unquote(prefix).strip("/")), config=config)


def _check_prefix(prefix: str) -> str:
    parts = prefix.split("/") if prefix else []
    if not prefix.isprintable() or any(part in ("", ".", "..") for part in parts):
        raise InvalidArgument(_FIELD, f"{prefix!r} is no prefix of keys; write one such as s3://bucket/team/artifacts")
    return prefix


def _parse_options(query: str) -> Mapping[str, str]:
    found = dict(parse_qsl(query, keep_blank_values=True))
    for name in found:
        if name not in _OPTIONS:
            raise InvalidArgument(_FIELD, f"a bucket has no option {name!r}; there are {' and '.join(_OPTIONS)}")
    return found


def _check_endpoint(endpoint: str) -> None:
    if not re.fullmatch(r"https?://[\w.:\[\]-]+(/[\w./-]*)?", endpoint, re.ASCII):
        raise InvalidArgument(_FIELD, "the endpoint is no address; write one such as https://host:9000")


def _config_from_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    return {option: environment[name] for name, option in _VARIABLES.items() if environment.get(name)}
