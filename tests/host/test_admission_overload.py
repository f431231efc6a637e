"""Ten times more calls than a host can serve. Time is counted in steps of the loop, so nothing depends on a clock."""

import asyncio
from collections import Counter

from openskills.errors import TooManyRequests
from openskills.host.admission import Admission
from openskills.host.auth import Principal
from tests.host.admission_calls import ECHO, FAR, Calls, Watch

CAPACITY, QUEUE, STEPS, TAKES = 4, 8, 300, 5


class Load:
    """In each step come seven calls of one key and one of another; each takes five steps."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.step = 0
        self.running = 0
        self.most = 0
        self.waits: list[int] = []
        self.served: Counter[str] = Counter()
        self.refusals: list[TooManyRequests] = []

    async def run(self) -> int:
        """How many calls there were; all have ended."""
        tasks: list[asyncio.Task[None]] = []
        while self.step < STEPS or not all(task.done() for task in tasks):
            if self.step < STEPS:
                tasks += [asyncio.create_task(self._call(key)) for key in [*["greedy"] * 7, "modest"]]
            await Calls.settle()
            self.step += 1
        await asyncio.gather(*tasks)
        return len(tasks)

    async def _call(self, key: str) -> None:
        came = self.step
        try:
            async with self.admission.admit(Principal(key), ECHO, asyncio.get_running_loop().time() + FAR):
                self.waits.append(self.step - came)
                self.running += 1
                self.most = max(self.most, self.running)
                until = self.step + TAKES
                while self.step < until:
                    await asyncio.sleep(0)
                self.running -= 1
                self.served[key] += 1
        except TooManyRequests as error:
            self.refusals.append(error)


async def test_at_ten_times_the_capacity_load_is_shed_and_nobody_waits_behind_more_than_the_line() -> None:
    watch = Watch()

    load = Load(Admission(capacity=CAPACITY, queue=QUEUE, observer=watch))
    calls = await load.run()
    served = load.served.total()
    assert served + len(load.refusals) == calls == 8 * STEPS
    assert load.most == CAPACITY
    # What could be served was: four calls in five steps, and the line at the end.
    assert served >= CAPACITY * STEPS // TAKES
    assert served <= CAPACITY * (STEPS // TAKES + 1) + QUEUE
    # A full line is served in ten steps; nobody who is let in waits much longer than that.
    assert max(load.waits) <= (QUEUE // CAPACITY + 1) * TAKES
    # The key that sends an eighth of the calls gets about half of the places.
    assert load.served["modest"] >= served * 0.4
    assert max(watch.lengths) <= QUEUE
    assert watch.reasons.total() == len(load.refusals)
    assert all(float(str(error.details["retry_after"])) > 0 for error in load.refusals)
    assert (load.admission.active_count, load.admission.queue_length) == (0, 0)
