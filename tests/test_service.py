"""The service as a whole: BentoML's own client, answers under load, and a runner that dies."""

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bentoml
import httpx
import psutil

from corpus import Row
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, load_models
from tests.conftest import Server, serving

LONG = "اليوم طبخنا الرز وتفرجنا على المباراة مع الجيران. " * 10


def test_bentoml_client(server: Server) -> None:
    with bentoml.SyncHTTPClient(server.url) as client:
        prediction = client.predict(text="لا أريد أن أستيقظ غدا", participant_id="p-1")
        assert {"depression_score", "anxiety_score", "alerts", "meta"} == set(prediction)
        history = [{"depression_score": 0, "anxiety_score": 0}, {"depression_score": 2, "anxiety_score": 0}]
        (alert,) = client.alerts(history=history)["alerts"]
        assert alert["type"] == "SuddenSpike"
        assert client.predict_with_alerts(text="الجو جميل", history=history)["meta"]["language"] == "ar"


def test_served_answers_are_those_of_the_stored_model_whoever_else_asks(
    server: Server, corpus_slice: list[Row]
) -> None:
    model = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    texts = [row.text for row in corpus_slice if row.split == "test"]
    texts += [
        "، ".join(texts[:40]),
        "x",
        "7",
        "😢 ا",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467 ok",
        " ".join(texts)[:20_000],
    ]
    expected = [(s.depression, s.anxiety, s.language) for text in texts for s in model.score([text])]
    order = list(range(len(texts)))
    random.Random(1).shuffle(order)

    def ask(index: int) -> tuple[int, int, str]:
        body = httpx.post(f"{server.url}/predict", json={"text": texts[index]}, timeout=60).json()
        return body["depression_score"], body["anxiety_score"], body["meta"]["language"]

    with ThreadPoolExecutor(16) as pool:
        answers = dict(zip(order, pool.map(ask, order), strict=True))
    assert [answers[index] for index in range(len(texts))] == expected


def test_health_does_not_wait_for_a_long_text(server: Server) -> None:
    longest = (LONG * 40)[:20_000]
    with ThreadPoolExecutor(2) as pool:
        asking = [
            pool.submit(httpx.post, f"{server.url}/predict", json={"text": longest}, timeout=60) for _ in range(2)
        ]
        found = []
        while not all(one.done() for one in asking):
            found.append(httpx.get(f"{server.url}/health", timeout=5).status_code)
            time.sleep(0.2)
    assert [one.result().status_code for one in asking] == [200, 200]
    assert len(found) > 2
    assert set(found) == {200}


def test_starting_and_a_killed_runner_are_unavailable_and_pass(training: Path, tmp_path: Path) -> None:
    with serving("service:SeverityService", tmp_path / "log") as server:
        assert server.statuses_while_starting <= {200, 503}
        assert server.predictions_while_starting <= {503}
        (runner,) = [
            child
            for child in psutil.Process(server.process.pid).children(recursive=True)
            if "SeverityRunner" in child.cmdline()
        ]
        os.kill(runner.pid, signal.SIGKILL)
        time.sleep(1.1)  # longer than a finding of health is kept
        health = httpx.get(f"{server.url}/health", timeout=5)
        assert health.status_code == 503
        assert set(health.json()) == {"status", "service", "version"}
        assert health.json()["status"] != "ok"
        assert "retry-after" in health.headers
        give_up = time.monotonic() + 60
        while httpx.get(f"{server.url}/health", timeout=5).status_code != 200:
            assert time.monotonic() < give_up
            time.sleep(0.2)
        answer = httpx.post(f"{server.url}/predict", json={"text": "الجو جميل"}, timeout=40)
        assert answer.status_code == 200
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")


def test_sigterm_ends_what_has_begun_and_refuses_the_rest(training: Path, tmp_path: Path) -> None:
    statuses: list[tuple[float, int]] = []
    with serving("service:SeverityService", tmp_path / "log") as server, ThreadPoolExecutor(9) as pool:

        def ask(_: int) -> None:
            with httpx.Client(base_url=server.url, timeout=30) as client:
                while not ended:
                    asked = time.monotonic()
                    try:
                        statuses.append((asked, client.post("/predict", json={"text": LONG}).status_code))
                    except httpx.TransportError:
                        return

        ended = False
        asking = [pool.submit(ask, number) for number in range(8)]
        time.sleep(1.5)
        told = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=10) is not None
        ended = True
        for one in asking:
            one.result()
    assert {status for asked, status in statuses if asked < told} == {200}
    assert {status for asked, status in statuses if asked > told + 0.2} == {503}
