"""What the system says about a path in a workspace, in the words of our caller."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded

_SAID = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "has a file where a directory is needed",
    errno.EISDIR: "is a directory",
    errno.ENOTEMPTY: "is a directory",
    errno.EEXIST: "is there already",
    errno.ENXIO: "is no regular file",
    errno.EACCES: "may not be used: a command has taken the permission away",
    errno.EPERM: "may not be used: a command has taken the permission away",
    errno.ENAMETOOLONG: "is too long",
}
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def told(path: str, *, field: str = "path") -> Generator[None]:
    """Turn an `OSError` that the caller or a script has caused into an error that names the path as it was given.

    `InvalidArgument` for what is missing or of another kind, `ForbiddenPath` for a link that is not followed,
    `LimitExceeded` when there is no room. Everything else passes.
    """
    try:
        yield
    except ForbiddenPath as error:
        # The path in its message is one of ours, from inside.
        raise ForbiddenPath(f"{field}: {path!r} {error.details.get('why')}") from error
    except OSError as error:
        if error.errno in _FULL:
            raise LimitExceeded(f"there is no room for {path!r}: {error.strerror}; make some") from error
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise ForbiddenPath(f"{field}: {path!r} goes through a link") from error
        if error.errno in _SAID:
            raise InvalidArgument(field, f"{path!r} {_SAID[error.errno]}") from error
        raise
