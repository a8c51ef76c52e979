"""Runs a server on a free port of this machine for as long as someone needs it: evaluation, benchmark, tests."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx
import psutil

ROOT = Path(__file__).parent
# Stands in a command for the port.
PORT = "PORT"
_STOP_SECONDS = 20


@dataclass(frozen=True)
class LocalServer:
    """A served process and where it listens."""

    url: str
    process: subprocess.Popen[bytes]

    def processes(self) -> list[psutil.Process]:
        """The process and all under it."""
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def memory_mib(self) -> float:
        """Resident memory of all of them, in MiB."""
        return sum(float(process.memory_info().rss) for process in self.processes()) / 2**20

    def answers(self, path: str) -> bool:
        """Whether a GET of `path` is answered with 200 now."""
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}{path}", timeout=5).status_code == 200
        return False

    def wait_for(self, path: str, seconds: float) -> bool:
        """Whether a GET of `path` is answered with 200 within `seconds`; False too when the process ends."""
        give_up = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < give_up:
            if self.answers(path):
                return True
            time.sleep(0.05)
        return False


def bentoml_serve(target: str, python: str = sys.executable) -> list[str]:
    """The command that serves `target`."""
    return [python, "-m", "bentoml", "serve", target, "--host", "127.0.0.1", "--port", PORT]


@contextmanager
def running(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path = ROOT,
    output: IO[bytes] | int = subprocess.DEVNULL,
) -> Iterator[LocalServer]:
    """Start `command` in `folder`, with `environment` on top of ours; stop it, if need be all under it, at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    process = subprocess.Popen(
        [port if part == PORT else part for part in command],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        yield LocalServer(f"http://127.0.0.1:{port}", process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=_STOP_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
