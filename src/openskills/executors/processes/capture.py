"""What is kept of a stream of bytes that may never end. Pure."""

from collections import deque

from openskills.executors.spec import Captured, Output


class Capture:
    """The head and the tail of a stream, `limit` bytes in all, however much comes."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    @property
    def full(self) -> bool:
        """Whether bytes are being left out."""
        return self.total > self._head_room + self._tail_room

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self.total += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data or not self._tail_room:
            return
        self._tail.append(data[-self._tail_room :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    def captured(self) -> Captured:
        """What is kept until now."""
        tail = b"".join(self._tail)[-self._tail_room :] if self._tail else b""
        return Captured(bytes(self._head), tail, self.total - len(self._head) - len(tail))


class Ring:
    """The last `capacity` bytes of a stream, addressed by their offset in the whole stream."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self.total += len(data)
        self._kept += data
        # Cut in large steps: a cut for every byte that comes would move all the others each time.
        if len(self._kept) > 2 * self._capacity:
            del self._kept[: len(self._kept) - self._capacity]

    def read(self, offset: int, limit: int, *, ended: bool) -> Output:
        """Up to `limit` bytes from `offset` on; an offset that is no longer kept moves to the first byte that is."""
        first = self.total - len(self._kept)
        start = min(max(offset, first), self.total)
        data = bytes(self._kept[start - first : start - first + limit])
        end = start + len(data)
        return Output(data, start, end, missed=max(start - offset, 0), ended=ended and end == self.total)
