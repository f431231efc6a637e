"""Which objects of a bucket nobody needs any more."""

from contextlib import aclosing
from datetime import datetime

from openskills.artifacts.files import Swept
from openskills.artifacts.s3_bucket import Bucket
from openskills.artifacts.s3_keys import CONTENT, NAMES, Found, by_name, living, record_of


async def sweep(bucket: Bucket, *, before: datetime) -> Swept:
    """Remove what was deleted before that time, and older content that no record refers to."""
    kept: list[Found] = []
    gone: list[Found] = []
    for keys in by_name(await _listed(bucket, NAMES)):
        here, there = parted(keys, before=before)
        kept += here
        gone += there
    wanted = await _contents(bucket, kept)
    # Looked at last: content that a put has brought since then is younger than what is removed.
    contents = await _listed(bucket, CONTENT)
    unwanted = [one for one in contents if one.key not in wanted and one.at < before]
    await bucket.delete([one.key for one in unwanted])
    # The records after their content: who is killed in between leaves nothing that the next sweep cannot find.
    await bucket.delete([one.key for one in gone])
    return Swept(len(unwanted), sum(one.size for one in unwanted))


def parted(keys: list[Found], *, before: datetime) -> tuple[list[Found], list[Found]]:
    """The records of one name whose content has to stay, and the keys that can go. The latest mark always stays.

    What was deleted lately stays: somebody may be reading it.
    """
    here = living(keys)
    if len(here) == len(keys):
        return here, []
    mark, rest = keys[len(here)], keys[len(here) + 1 :]
    if mark.at < before:
        return here, rest
    return here + [one for one in rest if not one.is_mark], []


async def _contents(bucket: Bucket, records: list[Found]) -> set[str]:
    texts = await bucket.read_all([one.key for one in records])
    return {record_of(text, one.key).content for one, text in zip(records, texts, strict=True) if text is not None}


async def _listed(bucket: Bucket, prefix: str) -> list[Found]:
    async with aclosing(bucket.listed(prefix)) as found:
        return [one async for one in found]
