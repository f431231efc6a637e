"""Open an artifact store or an object store by its URL; only the chosen store is imported."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import parse_qsl, unquote

from openskills.arguments import check_arguments, find_plugin
from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import ArtifactStore
from openskills.errors import InvalidArgument, MissingExtra
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.artifacts.objects import ObjectStore

FORMS = ("memory:", "file:///absolute/directory", "s3://bucket/prefix?endpoint=https://host&region=eu-central-1")
"""The supported URL forms."""
STORAGE_FORMS = ("/absolute/directory", *FORMS[1:])
"""The supported forms of `OPENSKILL_STORAGE`."""

DEFAULT_DIRECTORY = "artifacts"

_FIELD = "artifacts"
_STORAGE_FIELD = "OPENSKILL_STORAGE"
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


@check_arguments
def open_artifact_store(url: str | None, settings: Settings) -> ArtifactStore:
    """The artifact store at a URL of one of the `FORMS`.

    Without a URL, `artifacts` in the storage that several machines share (`OPENSKILL_STORAGE`), else in the state
    directory. Other schemes are entry points in the group `openskills.artifact_stores`. Nothing is opened yet.
    Credentials for S3 come from the same places as in AWS's own tools, never from the URL. Raises `InvalidArgument` for
    another URL, and `MissingExtra` if the `s3` extra is not installed.
    """
    if url is None:
        place = _parse_storage(settings.storage, settings) if settings.storage else settings.state_dir
        if isinstance(place, Path):
            return FileArtifactStore(place / DEFAULT_DIRECTORY)
        return _open_bucket(place._replace(prefix=f"{place.prefix}/{DEFAULT_DIRECTORY}".lstrip("/")))
    scheme, _, rest = url.partition(":")
    if scheme == "memory" and rest in ("", "//"):
        return MemoryArtifactStore()
    if scheme == "file" and rest.startswith("///"):
        return FileArtifactStore(_parse_directory(rest.removeprefix("//"), _FIELD))
    if scheme == "s3" and rest.startswith("//"):
        return _open_bucket(parse_bucket_url(url, settings.environment, field=_FIELD))
    if (plugin := find_plugin("openskills.artifact_stores", scheme, _FIELD)) is not None:
        return cast("ArtifactStore", plugin(url, settings))
    raise InvalidArgument(_FIELD, f"unsupported URL; use one of: {', '.join(FORMS)}")


@check_arguments
def open_object_store(url: str, settings: Settings) -> "ObjectStore":
    """The object store at a URL of one of the `STORAGE_FORMS`, such as the value of `OPENSKILL_STORAGE`.

    Nothing is opened yet. Raises `InvalidArgument` for another URL, and `MissingExtra` if the `s3` extra is missing.
    """
    from openskills.artifacts.objects import DirectoryObjectStore, S3ObjectStore

    place = _parse_storage(url, settings)
    if isinstance(place, Path):
        return DirectoryObjectStore(place)
    return S3ObjectStore(place.name, place.prefix, config=place.config)


class BucketUrl(NamedTuple):
    """A parsed `s3://bucket/prefix?options`, with the configuration of obstore."""

    name: str
    prefix: str
    config: Mapping[str, str]


def parse_bucket_url(url: str, environment: Mapping[str, str], *, field: str) -> BucketUrl:
    """Parse the URL of a bucket. Raises `InvalidArgument` for `field`, and `MissingExtra` without the extra `s3`."""
    # Before any error message repeats a part of the URL.
    if "@" in unquote(url):
        raise InvalidArgument(
            field, "the URL must not contain credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    place, _, query = url.removeprefix("s3://").partition("?")
    bucket, _, prefix = place.partition("/")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{1,254}", bucket, re.ASCII):
        raise InvalidArgument(field, f"invalid bucket name {bucket!r}; use a URL such as s3://bucket/prefix")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            raise InvalidArgument(field, f"unknown option {name!r}; expected {' or '.join(_OPTIONS)}")
    defaults = {option: environment[name] for name, option in _VARIABLES.items() if environment.get(name)}
    config = {**defaults, **options}
    if "endpoint" in config:
        if not re.fullmatch(r"https?://[\w.:\[\]-]+(/[\w./-]*)?", config["endpoint"], re.ASCII):
            raise InvalidArgument(field, "the endpoint is not a URL; use one such as https://host:9000")
        # Also under the name that would take precedence if it were in the environment of the process.
        config["aws_endpoint_url_s3"] = config["endpoint"]
    prefix = unquote(prefix).strip("/")
    if not prefix.isprintable() or (prefix and any(part in ("", ".", "..") for part in prefix.split("/"))):
        raise InvalidArgument(field, f"invalid key prefix {prefix!r}; use one such as s3://bucket/team/artifacts")
    if find_spec("obstore") is None:
        raise MissingExtra("s3", "a store in a bucket")
    return BucketUrl(bucket, prefix, config)


def _open_bucket(bucket: BucketUrl) -> ArtifactStore:
    from openskills.artifacts.s3 import S3ArtifactStore

    return S3ArtifactStore(bucket.name, bucket.prefix, config=bucket.config)


def _parse_storage(url: str, settings: Settings) -> Path | BucketUrl:
    if url.startswith("s3://"):
        return parse_bucket_url(url, settings.environment, field=_STORAGE_FIELD)
    if url.startswith("/"):
        return Path(url)
    if url.startswith("file:///"):
        return _parse_directory(url.removeprefix("file://"), _STORAGE_FIELD)
    raise InvalidArgument(_STORAGE_FIELD, f"unsupported URL; use one of: {', '.join(STORAGE_FORMS)}")


def _parse_directory(path: str, field: str) -> Path:
    if "?" in path or "#" in path or "\0" in unquote(path):
        raise InvalidArgument(field, f"invalid directory {path!r}; write ? # % as %3F %23 %25")
    return Path(unquote(path))
