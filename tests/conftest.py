"""What tests share: a BentoML store of their own, one training, one real server."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# Before anything imports bentoml: tests never touch the user's own store.
_HOME = tempfile.mkdtemp(prefix="severity-tests-")
os.environ |= {"BENTOML_HOME": _HOME, "BENTOML_DO_NOT_TRACK": "True", "HF_HUB_OFFLINE": "1"}

import httpx
import pytest
from hypothesis import settings

from corpus import VARIETIES, Row, read_corpus
from local_server import ROOT, LocalServer, bentoml_serve, running

START_SECONDS = 90

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


@dataclass(frozen=True)
class Server(LocalServer):
    """A served process with what it logs and how it started."""

    log: Path
    statuses_while_starting: set[int]
    predictions_while_starting: set[int]


@contextmanager
def serving(
    target: str, log: Path, *, folder: Path = ROOT, python: str = sys.executable, **env: str
) -> Iterator[Server]:
    """Run `bentoml serve target` until its `/health` is 200; stop it, and all of its processes, at the end."""
    with log.open("wb") as output, running(bentoml_serve(target, python), env, folder, output) as local:
        yield Server(local.url, local.process, log, *_wait_until_healthy(local, log))


def _wait_until_healthy(server: LocalServer, log: Path) -> tuple[set[int], set[int]]:
    """Statuses of `/health` up to the first 200, and of `/predict` before it."""
    statuses: set[int] = set()
    predictions: set[int] = set()
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and server.process.poll() is None:
        with suppress(httpx.TransportError):
            statuses.add(httpx.get(f"{server.url}/health", timeout=5).status_code)
        if 200 in statuses:
            return statuses, predictions
        if 503 in statuses and not predictions:
            with suppress(httpx.TransportError):
                predictions.add(httpx.post(f"{server.url}/predict", json={"text": "x"}, timeout=5).status_code)
        time.sleep(0.1)
    raise AssertionError(f"the server did not become healthy; its log:\n{log.read_text(encoding='utf-8')}")


@pytest.fixture(scope="session")
def corpus_slice() -> list[Row]:
    """Some 400 real rows: of each variety 45 to train on and 20 held back, spread over the file."""
    rows = read_corpus()
    chosen = []
    for variety in VARIETIES:
        for split, wanted in (("train", 45), ("test", 20)):
            of_both = [row for row in rows if (row.variety, row.split) == (variety, split) and row.pair is None]
            chosen += of_both[:: max(1, len(of_both) // wanted)][:wanted]
    return chosen


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of reports of the real training, whose models are now in the tests' store."""
    import train

    folder = tmp_path_factory.mktemp("reports")
    train.main(["--reports", str(folder)])
    return folder


@pytest.fixture(scope="session")
def server(training: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The real service with the real encoder, from the clone."""
    with serving("service:SeverityService", tmp_path_factory.mktemp("server") / "log") as running:
        yield running


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[httpx.Client]:
    """An HTTP client of the real service."""
    with httpx.Client(base_url=server.url, timeout=40) as http:
        yield http


Post = Callable[..., httpx.Response]


@pytest.fixture
def post(client: httpx.Client) -> Post:
    """Post `content` as JSON bytes, with any headers on top."""

    def send(path: str, content: bytes, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.post(path, content=content, headers={"content-type": "application/json", **named})

    return send
