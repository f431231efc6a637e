"""Open an artifact store by its URL; only the chosen store is imported."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl, unquote

from openskills.arguments import find_plugin
from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import ArtifactStore
from openskills.errors import InvalidArgument, MissingExtra
from openskills.settings import Settings

FORMS = ("memory:", "file:///absolute/directory", "s3://bucket/prefix?endpoint=https://host&region=eu-central-1")
"""The supported URL forms."""

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
    """The artifact store at a URL of one of the `FORMS`; without a URL, files in the state directory.

    Other schemes are entry points in the group `openskills.artifact_stores`. Nothing is opened yet. Credentials for S3
    come from the same places as in AWS's own tools, never from the URL.
    Raises `InvalidArgument` for another URL, and `MissingExtra` if the `s3` extra is not installed.
    """
    if url is None:
        return FileArtifactStore(settings.state_dir / DEFAULT_DIRECTORY)
    scheme, _, rest = url.partition(":")
    if scheme == "memory" and rest in ("", "//"):
        return MemoryArtifactStore()
    if scheme == "file" and rest.startswith("///"):
        path = rest.removeprefix("//")
        if "?" in path or "#" in path or "\0" in unquote(path):
            raise InvalidArgument(_FIELD, f"invalid directory {path!r}; write ? # % as %3F %23 %25")
        return FileArtifactStore(Path(unquote(path)))
    if scheme == "s3" and rest.startswith("//"):
        return _open_s3(url, settings.environment)
    if (plugin := find_plugin("openskills.artifact_stores", scheme, _FIELD)) is not None:
        return cast("ArtifactStore", plugin(url, settings))
    raise InvalidArgument(_FIELD, f"unsupported URL; use one of: {', '.join(FORMS)}")


def _open_s3(url: str, environment: Mapping[str, str]) -> ArtifactStore:
    # Before any error message repeats a part of the URL.
    if "@" in unquote(url):
        raise InvalidArgument(
            _FIELD, "the URL must not contain credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    place, _, query = url.removeprefix("s3://").partition("?")
    bucket, _, prefix = place.partition("/")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{1,254}", bucket, re.ASCII):
        raise InvalidArgument(_FIELD, f"invalid bucket name {bucket!r}; use a URL such as s3://bucket/prefix")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            raise InvalidArgument(_FIELD, f"unknown option {name!r}; expected {' or '.join(_OPTIONS)}")
    defaults = {option: environment[name] for name, option in _VARIABLES.items() if environment.get(name)}
    config = {**defaults, **options}
    if "endpoint" in config:
        if not re.fullmatch(r"https?://[\w.:\[\]-]+(/[\w./-]*)?", config["endpoint"], re.ASCII):
            raise InvalidArgument(_FIELD, "the endpoint is not a URL; use one such as https://host:9000")
        # Also under the name that would take precedence if it were in the environment of the process.
        config["aws_endpoint_url_s3"] = config["endpoint"]
    prefix = unquote(prefix).strip("/")
    if not prefix.isprintable() or (prefix and any(part in ("", ".", "..") for part in prefix.split("/"))):
        raise InvalidArgument(_FIELD, f"invalid key prefix {prefix!r}; use one such as s3://bucket/team/artifacts")
    if find_spec("obstore") is None:
        raise MissingExtra("s3", "an artifact store in a bucket")
    from openskills.artifacts.s3 import S3ArtifactStore

    return S3ArtifactStore(bucket, prefix, config=config)
