"""Our ends of a command's pipes, served by the event loop without ever waiting."""

import asyncio
import errno
import os
from collections.abc import Callable

_CHUNK = 256 * 1024
_LULL = 0.002
_ENOUGH = 16 * 1024 * 1024


class Reader:
    """Reads a descriptor as long as something comes, and hands it on. The descriptor is its own.

    `hear` says whether the stream may be read more slowly: a command that floods us then waits for us instead of
    taking the whole loop for output that nobody keeps. `fault` is what kept it from reading to the end.
    """

    def __init__(self, descriptor: int, hear: Callable[[bytes], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._hear = hear
        self._lull: asyncio.TimerHandle | None = None
        self.descriptor = descriptor
        self.fault: OSError | None = None
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Take what is there now, and close: whoever still holds the other end has been ended."""
        if self.descriptor >= 0:
            for _ in range(_ENOUGH // _CHUNK):
                data = self._take()
                if not data:
                    break
                self._hear(data)
            self._close()

    def _read(self) -> None:
        data = self._take()
        if data is None:
            return
        if not data:
            self._close()
        elif self._hear(data):
            self._loop.remove_reader(self.descriptor)
            self._lull = self._loop.call_later(_LULL, self._loop.add_reader, self.descriptor, self._read)

    def _take(self) -> bytes | None:
        """What has come; None when nothing has, nothing at the end. A terminal ends with an error (EIO)."""
        try:
            return os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EIO:
                self.fault = error
            return b""

    def _close(self) -> None:
        if self._lull is not None:
            self._lull.cancel()
        self._loop.remove_reader(self.descriptor)
        # One that cannot be read is not the one that it was: somebody has closed it, and others have its number.
        if self.fault is None:
            os.close(self.descriptor)
        self.descriptor = -1


class Writer:
    """Writes to a descriptor as the other side reads. The descriptor is its own.

    `first` is written whole before anything else; after it the descriptor is closed unless it is to be kept open.
    """

    def __init__(self, descriptor: int, first: bytes, *, keep_open: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._waiting = memoryview(first)
        self._keep_open = keep_open
        self._write()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._descriptor < 0

    def offer(self, data: bytes) -> int:
        """Write as much as the other side has room for now, and say how much that was."""
        if self._waiting or not data:
            return 0
        return self._push(memoryview(data))

    def finish(self) -> None:
        """Close as soon as everything that was taken is written."""
        self._keep_open = False
        if not self._waiting:
            self.close()

    def close(self) -> None:
        """Close now."""
        if self._descriptor >= 0:
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self) -> None:
        self._waiting = self._waiting[self._push(self._waiting) :]
        if self._descriptor < 0:
            return
        if self._waiting:
            self._loop.add_writer(self._descriptor, self._write)
            return
        self._loop.remove_writer(self._descriptor)
        if not self._keep_open:
            self.close()

    def _push(self, data: memoryview) -> int:
        taken = 0
        while taken < len(data):
            try:
                taken += os.write(self._descriptor, data[taken:])
            except BlockingIOError:
                break
            except OSError:
                # Nobody reads any more; what is left has no reader, and the command says itself how it ended.
                self.close()
                return len(data)
        return taken
