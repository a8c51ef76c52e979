"""Every request leaves one line and is counted; tests/api/test_privacy.py shows that neither tells what was sent."""

import json
import re
import time
from typing import Any

import httpx

from tests.conftest import Server


def line_of(server: Server, request_id: str) -> dict[str, Any]:
    """The log line of one request; it is written after the answer was sent."""
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up:
        lines = [line for line in server.log.read_text(encoding="utf-8").splitlines() if request_id in line]
        if lines:
            assert len(lines) == 1
            found: dict[str, Any] = json.loads(lines[0])
            return found
        time.sleep(0.05)
    raise AssertionError("the request left no line")


def metric(client: httpx.Client, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_request_leaves_one_line_of_json(server: Server, client: httpx.Client) -> None:
    answers = [
        client.post("/predict", json={"text": "اليوم طبخنا الرز"}),
        client.post("/alerts", json={}),
        client.get("/zq/unknown"),
    ]
    for answer, path, batch in zip(answers, ("/predict", "/alerts", "elsewhere"), (1, None, None), strict=True):
        line = line_of(server, answer.headers["x-request-id"])
        assert set(line) == {"time", "id", "path", "status", "ms", "batch"}
        assert (line["path"], line["status"], line["batch"]) == (path, answer.status_code, batch)
        assert 0 < line["ms"] < 60_000


def test_requests_levels_and_batches_are_counted(client: httpx.Client) -> None:
    names = (
        'severity_requests_total{path="/predict",status="200"}',
        'severity_request_seconds_count{path="/predict"}',
        'severity_predictions_total{level="0",target="depression"}',
        'severity_requests_total{path="elsewhere",status="404"}',
        "severity_batch_texts_count",
    )
    before = [metric(client, name) for name in names]
    assert client.post("/predict", json={"text": "اليوم طبخنا الرز"}).json()["depression_score"] == 0
    client.get("/zq/unknown")
    after = [metric(client, name) for name in names]
    # The check of health scores texts too, between times.
    assert [b - a for a, b in zip(before[:4], after[:4], strict=True)] == [1, 1, 1, 1]
    assert after[4] > before[4]
    assert metric(client, "severity_waiting_texts") == 0
    assert client.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")
