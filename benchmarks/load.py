"""Sends single-text requests from many clients at once and measures what comes back."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np


@dataclass(frozen=True)
class Load:
    """What some clients met: answers by status, and the latencies, in seconds, of those that were 200."""

    seconds: float
    statuses: Counter[int]
    latencies: list[float]

    @property
    def per_second(self) -> float:
        """Answers of 200 in a second."""
        return self.statuses[200] / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """A percentile of the latency, in milliseconds; NaN without a 200."""
        return float(np.percentile(self.latencies, percent)) * 1000 if self.latencies else float("nan")


def load(url: str, bodies: Sequence[dict[str, Any]], clients: int, seconds: float) -> Load:
    """Post `bodies` in turn to `url` from `clients` connections, each sending its next when it has its answer.

    A refused request is sent no more; its client waits a tenth of a second. Status 0 stands for no answer at all.
    """
    return asyncio.run(_load(url, bodies, clients, seconds))


async def _load(url: str, bodies: Sequence[dict[str, Any]], clients: int, seconds: float) -> Load:
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    started = time.perf_counter()

    async def client(number: int, session: aiohttp.ClientSession) -> None:
        sent = number
        while time.perf_counter() - started < seconds:
            before = time.perf_counter()
            try:
                async with session.post(url, json=bodies[sent % len(bodies)]) as answer:
                    await answer.read()
                    status = answer.status
            except (TimeoutError, aiohttp.ClientError):
                status = 0
            statuses[status] += 1
            if status == 200:
                latencies.append(time.perf_counter() - before)
            else:
                await asyncio.sleep(0.1)
            sent += clients

    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        await asyncio.gather(*(client(number, session) for number in range(clients)))
    return Load(time.perf_counter() - started, statuses, latencies)


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    """The shortest of `repeats` times that `call` takes, in seconds."""
    times = []
    for _ in range(repeats):
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return min(times)
