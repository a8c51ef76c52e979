"""Long tests of load, faults and abuse on a real served process: `make soak`. They print the figures they find."""

import random
import signal
import socket
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import bentoml
import httpx
import psutil
import pytest

from benchmarks.load import load
from corpus import read_corpus
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, load_models
from tests.conftest import Server, serving

pytestmark = pytest.mark.soak
TEXTS = [row.text for row in read_corpus() if row.split == "train"][::40][:256]
BODIES = [{"text": text} for text in TEXTS]


def worker(server: Server, of: str) -> psutil.Process:
    (found,) = [process for process in server.processes() if of in " ".join(process.cmdline())]
    return found


def seconds_until(condition: Iterator[bool], most: float) -> float:
    started = time.monotonic()
    for holds in condition:
        if holds:
            return time.monotonic() - started
        assert time.monotonic() - started < most
        time.sleep(0.05)
    raise AssertionError


def health_is(server: Server, healthy: bool) -> Iterator[bool]:
    while True:
        yield server.answers("/health") == healthy


def show(**figures: object) -> None:
    print("\n" + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items()))


def test_512_clients_for_a_minute_are_served_or_refused(server: Server) -> None:
    found = load(f"{server.url}/predict", BODIES, clients=512, seconds=60)
    show(answers=dict(found.statuses), per_second=round(found.per_second, 1), p99_ms=round(found.percentile_ms(99)))
    assert set(found.statuses) <= {200, 503}
    assert found.statuses[200] > 1000
    assert seconds_until(health_is(server, True), 5) < 5


def test_below_the_bound_none_is_refused(server: Server) -> None:
    found = load(f"{server.url}/predict", BODIES, clients=200, seconds=30)
    show(answers=dict(found.statuses), p99_ms=round(found.percentile_ms(99)))
    assert set(found.statuses) == {200}


def test_memory_does_not_grow(server: Server) -> None:
    short = [{"text": " ".join(text.split()[:4])} for text in TEXTS]

    def send(requests: int) -> int:
        sent = 0
        while sent < requests:
            sent += load(f"{server.url}/predict", short, clients=16, seconds=10).statuses[200]
        return sent

    send(5_000)
    before = server.memory_mib()
    sent = send(20_000)
    after = server.memory_mib()
    show(requests=sent, before_mib=round(before), after_mib=round(after))
    assert after <= before * 1.02
    assert after <= 900


@contextmanager
def under_load(server: Server, answers: list[tuple[str, int, dict[str, object]]]) -> Iterator[None]:
    """Eight clients that ask all the while; what they are told goes to `answers`."""
    stop = threading.Event()

    def ask(number: int) -> None:
        chance = random.Random(number)
        while not stop.is_set():
            text = chance.choice(TEXTS)
            with suppress(httpx.TransportError):
                answer = httpx.post(f"{server.url}/predict", json={"text": text}, timeout=40)
                answers.append((text, answer.status_code, answer.json()))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    try:
        yield
        time.sleep(2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("of", ["SeverityRunner", "--ssl-version"], ids=["runner", "API process"])
def test_a_killed_process_is_noticed_and_comes_back(training: Path, tmp_path: Path, of: str) -> None:
    model = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    answers: list[tuple[str, int, dict[str, object]]] = []
    with serving("service:SeverityService", tmp_path / "log") as server, under_load(server, answers):
        worker(server, of).send_signal(signal.SIGKILL)
        noticed = seconds_until(health_is(server, False), 2)
        back = noticed + seconds_until(health_is(server, True), 15)
    statuses = Counter(status for _, status, _ in answers)
    show(killed=of, noticed_s=round(noticed, 2), back_s=round(back, 2), answers=dict(statuses))
    assert back < 15
    assert set(statuses) <= {200, 503}
    for text, status, body in answers:
        if status == 200:
            severity = model.score([text])[0]
            assert (body["depression_score"], body["anxiety_score"]) == (severity.depression, severity.anxiety)
        else:
            assert set(body) == {"error", "message"}


HEAD = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def hold_open(connection: socket.socket) -> bytes:
    """Half a body, then silence."""
    connection.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"text": "')
    return connection.recv(65536)


def trickle(connection: socket.socket) -> bytes:
    """A byte of the body a second."""
    connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
    with suppress(OSError):
        for _ in range(100):
            connection.sendall(b" ")
            time.sleep(1)
    return connection.recv(65536)


def close_early(connection: socket.socket) -> bytes:
    """Gone in the middle of the body."""
    connection.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"text"')
    connection.close()
    return b""


def a_thousand_headers(connection: socket.socket) -> bytes:
    """A right request with a thousand headers more."""
    body = '{"text": "كلام"}'.encode()
    many = b"".join(b"X-H%d: v\r\n" % number for number in range(1000))
    connection.sendall(HEAD + many + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return connection.recv(65536)


def endless_headers(connection: socket.socket) -> bytes:
    """Headers that never end."""
    connection.sendall(HEAD)
    with suppress(OSError):
        for _ in range(20_000):
            connection.sendall(b"X-H: " + b"v" * 1000 + b"\r\n")
    return connection.recv(65536)


def a_gibibyte(connection: socket.socket) -> bytes:
    """A chunked body of 1 GiB."""
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with suppress(OSError):
        for _ in range(2**30 // 65536):
            connection.sendall(chunk)
    return connection.recv(65536)


def deep_json(connection: socket.socket) -> bytes:
    """A hundred thousand brackets."""
    body = b'{"text": ' + b"[" * 100_000
    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return connection.recv(65536)


def gzip(connection: socket.socket) -> bytes:
    """A body that says it is compressed."""
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00")
    return connection.recv(65536)


@pytest.mark.parametrize(
    ("abuse", "status"),
    [
        (hold_open, b"504"),
        (trickle, b"504"),
        (close_early, b""),
        (a_thousand_headers, b"200"),
        (endless_headers, b"400"),
        (a_gibibyte, b"413"),
        (deep_json, b"400"),
        (gzip, b"400"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_ten_abusers_at_once_hurt_nobody(
    server: Server, abuse: Callable[[socket.socket], bytes], status: bytes
) -> None:
    address = urlsplit(server.url)
    told: list[bytes] = []

    def run() -> None:
        with suppress(OSError), socket.create_connection((address.hostname, address.port), timeout=60) as connection:
            told.append(abuse(connection))

    before = server.memory_mib()
    threads = [threading.Thread(target=run) for _ in range(10)]
    for thread in threads:
        thread.start()
    latencies: list[float] = []
    while any(thread.is_alive() for thread in threads) or len(latencies) < 5:
        asked = time.monotonic()
        assert httpx.post(f"{server.url}/predict", json={"text": "كلام"}, timeout=10).status_code == 200
        latencies.append(time.monotonic() - asked)
        time.sleep(0.05)
    grown = server.memory_mib() - before
    show(slowest_other_s=round(max(latencies), 2), grown_mib=round(grown, 1), told=told[:1])
    assert max(latencies) < 2
    assert grown < 50
    # Whoever is still sending when refused may find the connection gone before the answer.
    assert {answer.split(b" ")[1] if answer else b"" for answer in told} <= {status, b""}
    assert server.answers("/health")


def test_strange_strings_spoil_no_neighbour(training: Path) -> None:
    model = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    chance = random.Random(5)
    everything = [chr(code) for code in range(0x20, 0x2FFFF) if unicodedata.category(chr(code)) != "Cs"]
    marks = [character for character in everything if unicodedata.category(character).startswith("M")]
    alone = {text: model.score([text])[0] for text in TEXTS[:40]}
    seen = 0
    while seen < 5_000:
        odd = [strange(chance, everything, marks) for _ in range(24)]
        batch = [*odd, *chance.sample(sorted(alone), 8)]
        chance.shuffle(batch)
        for text, severity in zip(batch, model.score(batch), strict=True):
            assert severity == alone.get(text, severity)
            assert {severity.depression, severity.anxiety} <= {0, 1, 2, 3}
        seen += len(odd)


def strange(chance: random.Random, everything: list[str], marks: list[str]) -> str:
    """A string that nobody would write; a very long one now and then."""
    kind = chance.randrange(6)
    if kind == 0:
        return "".join(chance.choices(everything, k=chance.randint(1, 60)))
    if kind == 1:
        return "".join(chance.choices(marks, k=chance.randint(1, 40)))
    if kind == 2:
        return chance.choice("اxص字") * chance.choice([1, 30, 500, 20_000 if chance.random() < 0.1 else 50])
    if kind == 3:
        return "".join(chance.choices("؟!.,;:…-_*/\\\"'«»", k=chance.randint(1, 200)))
    if kind == 4:
        return "".join(chance.choices(["كلام", "mot", "слово", "字", "λόγος", "שלום", " "], k=30))
    return "😢" * chance.randint(1, 200)
