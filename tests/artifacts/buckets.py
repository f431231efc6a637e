"""Buckets of the S3 server of tests."""

from collections.abc import Mapping

from openskills.artifacts.s3 import S3ArtifactStore, S3Bucket
from tests.servers.s3 import CREDENTIALS, S3Server


def config_of(server: S3Server) -> Mapping[str, str]:
    """What is needed to reach it."""
    return {
        "access_key_id": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "secret_access_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        "region": "eu-central-1",
        "endpoint": server.endpoint,
    }


def bucket_of(server: S3Server, name: str | None = None, prefix: str = "pre/fix") -> S3Bucket:
    """A bucket, a new one unless it has a name."""
    return S3Bucket(name or server.new_bucket(), prefix, config_of(server), "the place")


def store_of(server: S3Server, name: str | None = None) -> S3ArtifactStore:
    """A store in a bucket, a new one unless it has a name."""
    return S3ArtifactStore(name or server.new_bucket(), "pre/fix", config=config_of(server))


def uploads(server: S3Server, bucket: str) -> int:
    """How many uploads in parts have begun and not ended."""
    return server.ask("GET", f"{bucket}?uploads").count(b"<UploadId>")


def keys(server: S3Server, bucket: str) -> list[str]:
    """Every key of a bucket."""
    listing = server.ask("GET", f"{bucket}?list-type=2").decode()
    return [part.partition("</Key>")[0] for part in listing.split("<Key>")[1:]]
