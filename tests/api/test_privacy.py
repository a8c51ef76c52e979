"""Nothing submitted and no participant id shows up in a log, an error or a header."""

import json
import socket
from urllib.parse import quote, urlsplit

import httpx

from tests.conftest import Server

SECRET = "سرلايقال"
LATIN_SECRET = "zqxsecretzqx"


def test_no_trace_of_what_was_submitted(server: Server, client: httpx.Client) -> None:
    secrets = f"{SECRET} {LATIN_SECRET}"
    good = {"text": secrets, "participant_id": secrets, "history": [], LATIN_SECRET: secrets}
    bad: list[dict[str, object]] = [
        {"text": [secrets]},
        {"text": "a", "participant_id": secrets * 20},
        {"text": "a", "date": secrets},
        {"text": "a", "history": [{"depression_score": secrets, "anxiety_score": 0, "date": secrets}]},
        {"text": "a", "history": secrets},
    ]
    answers = [client.post(path, json=good) for path in ("/predict", "/predict-with-alerts")]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert client.post("/alerts", json=good).json()["participant_id"] == secrets
    answers += [client.post("/predict-with-alerts", json=body) for body in bad]
    answers += [
        client.post("/predict", content=f'{{"text": "{secrets}'.encode(), headers={"content-type": "application/json"})
    ]
    answers += [client.post("/predict", content=secrets.encode(), headers={"content-type": f"text/{LATIN_SECRET}"})]
    answers += [
        client.get(f"/{quote(secrets)}"),
        client.get(f"/health?{quote(secrets)}"),
        client.request(LATIN_SECRET, "/predict"),
    ]
    answers += [
        client.get(f"/static_content/{LATIN_SECRET}"),
        client.get("/metrics"),
        client.get("/livez"),
        client.get("/readyz"),
        client.get("/schema.json"),
    ]
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as broken:
        broken.sendall(f"POST /predict {LATIN_SECRET} HTTP/1.1\r\n\r\n".encode())
        answer = broken.recv(65536)
    for response in answers:
        shown = response.text + repr(response.headers)
        for secret in (SECRET, LATIN_SECRET, quote(SECRET), json.dumps(SECRET).strip('"')):
            assert secret not in shown
    assert LATIN_SECRET.encode() not in answer
    log = server.log.read_text(encoding="utf-8")
    for secret in (SECRET, LATIN_SECRET, quote(SECRET), json.dumps(SECRET).strip('"')):
        assert secret not in log
    assert "Traceback" not in log
