"""Lets a process end what it has begun before SIGTERM ends it.

The processes of a service get SIGTERM at the same moment. Without this the runner would be gone
before the requests that wait for it are answered.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Container platforms give ten seconds at least; the server needs some of them for itself.
LONGEST_SECONDS = 8.0
_STEP_SECONDS = 0.05


class Drain:
    """Counts what is in flight; SIGTERM takes effect once nothing has been for a while.

    Args:
        quiet_seconds: how long nothing must be in flight.

    Attributes:
        begun: whether SIGTERM has come.
    """

    def __init__(self, quiet_seconds: float) -> None:
        self.quiet_seconds = quiet_seconds
        self.begun = False
        self._in_flight, self._last = 0, time.monotonic()
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Stand before the present handler of SIGTERM; call it from the main thread, once the server has its own."""
        server_handler = signal.getsignal(signal.SIGTERM)
        if not callable(server_handler):
            return

        def handle(number: int, frame: FrameType | None) -> None:
            if self.begun:
                return
            self.begun, self._last = True, time.monotonic()
            threading.Thread(target=self._end, args=(server_handler, number), daemon=True).start()

        signal.signal(signal.SIGTERM, handle)

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """What runs inside is ended first."""
        with self._lock:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1
                self._last = time.monotonic()

    def _is_busy(self) -> bool:
        with self._lock:
            return self._in_flight > 0 or time.monotonic() - self._last < self.quiet_seconds

    def _end(self, server_handler: Callable[[int, FrameType | None], object], number: int) -> None:
        give_up = time.monotonic() + LONGEST_SECONDS
        while self._is_busy() and time.monotonic() < give_up:
            time.sleep(_STEP_SECONDS)
        server_handler(number, None)
