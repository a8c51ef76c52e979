"""The contract, row by row, against the real service."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.conftest import Post, Server

CALM = "اليوم طبخنا الرز وتفرجنا على المباراة"
ENTRY = {"depression_score": 1, "anxiety_score": 0}
DATED = [{**ENTRY, "date": "2026-03-01"}, {**ENTRY, "date": "2026-03-08"}]
POSTS = ("/predict", "/alerts", "/predict-with-alerts")
VALID: dict[str, dict[str, Any]] = {
    "/predict": {"text": CALM},
    "/alerts": {"history": DATED},
    "/predict-with-alerts": {"text": CALM, "history": DATED},
}


def assert_error(response: httpx.Response, status: int, kind: str, *parts: str) -> None:
    body = response.json()
    assert (response.status_code, body["error"]) == (status, kind), body
    assert response.headers["content-type"] == "application/json"
    assert set(body) == {"error", "message"}
    assert isinstance(body["message"], str)
    assert body["message"]
    for part in parts:
        assert part in body["message"]


# --- what is accepted -----------------------------------------------------------------------


def test_health(client: httpx.Client) -> None:
    response = client.get("/health")
    assert response.status_code == 200
    body = response.json()
    assert set(body) == {"status", "service", "version"}
    assert body["status"] == "ok"
    assert client.head("/health").status_code == 200


def test_prediction_has_exactly_the_fields_of_the_specification(client: httpx.Client) -> None:
    response = client.post("/predict", json={"text": CALM, "participant_id": "p-1", "date": "2026-03-14"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"depression_score", "anxiety_score", "alerts", "meta"}
    assert all(type(body[score]) is int and 0 <= body[score] <= 3 for score in ("depression_score", "anxiety_score"))
    assert body["alerts"] == []
    assert body["meta"] == {
        "embedding_model": "intfloat/multilingual-e5-small",
        "classifier": "subword-transformer",
        "language": "ar",
    }


def test_alerts_over_a_history(client: httpx.Client) -> None:
    history = [
        {"date": f"2026-03-0{day}", "depression_score": score, "anxiety_score": 1}
        for day, score in ((1, 1), (2, 2), (3, 3))
    ]
    body = client.post("/alerts", json={"participant_id": "p-1", "history": history}).json()
    assert set(body) == {"participant_id", "alerts"}
    assert body["participant_id"] == "p-1"
    assert [(a["type"], a["target"], a["window"], a["triggered"]) for a in body["alerts"]] == [
        ("HighScore", "depression", 3, True),
        ("WorseningTrend", "depression", 3, True),
    ]
    assert "1 on 2026-03-01, 2 on 2026-03-02, 3 on 2026-03-03" in body["alerts"][0]["reason"]


def test_a_spike_has_no_window(client: httpx.Client) -> None:
    history = [{"depression_score": 0, "anxiety_score": 0}, {"depression_score": 0, "anxiety_score": 2}]
    (alert,) = client.post("/alerts", json={"history": history}).json()["alerts"]
    assert set(alert) == {"type", "target", "triggered", "reason"}


def test_the_new_score_is_the_newest_entry(client: httpx.Client) -> None:
    scores = client.post("/predict", json={"text": CALM}).json()
    depression, anxiety = scores["depression_score"], scores["anxiety_score"]
    history = [{"depression_score": 3, "anxiety_score": 0}, {"depression_score": 3, "anxiety_score": 0}]
    body = client.post("/predict-with-alerts", json={"text": CALM, "history": history}).json()
    expected = client.post(
        "/alerts", json={"history": [*history, {"depression_score": depression, "anxiety_score": anxiety}]}
    ).json()
    assert body["alerts"] == expected["alerts"]
    assert any(alert["type"] == "HighScore" for alert in body["alerts"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/predict", {"text": CALM, "history": "ignored", "unknown": {"deep": [1, 2]}}),
        ("/predict", {"text": CALM, "participant_id": None, "date": None}),
        ("/predict", {"text": "x" * 20_000}),
        ("/predict", {"text": "7"}),
        ("/predict", {"text": CALM, "participant_id": "p" * 128, "date": "2024-02-29"}),
        ("/alerts", {"history": [], "text": 5, "date": "never read"}),
        ("/alerts", {"history": [{**ENTRY, "date": None, "mood": "fine"}] * 3, "participant_id": None}),
        ("/alerts", {"history": [ENTRY] * 10_000}),
        ("/alerts", {"history": [DATED[0], DATED[0], ENTRY, DATED[1]]}),
        ("/alerts", {"history": [DATED[1], ENTRY, DATED[0]]}),  # only dated neighbours are compared
        ("/predict-with-alerts", {"text": CALM, "history": None}),
        ("/predict-with-alerts", {"text": CALM, "history": DATED, "date": "2026-03-08"}),
    ],
)
def test_accepted(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    if path == "/alerts":
        assert response.json()["participant_id"] is None


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'],
)
@pytest.mark.parametrize("path", POSTS)
def test_content_types_that_are_json(post: Post, path: str, content_type: str) -> None:
    assert post(path, json.dumps(VALID[path]).encode(), content_type=content_type).status_code == 200


def test_an_escaped_character_beyond_the_basic_plane_is_text(post: Post) -> None:
    assert post("/predict", b'{"text": "a \\ud83d\\ude22"}').status_code == 200


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/json; charset=latin-1",
        "application/json; x=1",
        "",
        "application/jsonp",
        "application/vnd.bentoml+pickle",
        "multipart/form-data; boundary=x",
    ],
)
@pytest.mark.parametrize("path", POSTS)
def test_content_types_that_are_not(post: Post, path: str, content_type: str) -> None:
    assert_error(post(path, json.dumps(VALID[path]).encode(), content_type=content_type), 415, "UnsupportedMediaType")


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b'{"text": "a",}',
        b'{"text": "a"} {}',
        b'{"text": "a", "x": NaN}',
        b'{"text": "a", "x": -Infinity}',
        b'{"text": "\\ud800"}',
        b'{"text": "a", "x": "\\udc00\\ud800"}',
        b'{"text": "\xff"}',
        b'{"text": "\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"text": "a"}',
        '{"text": "a"}'.encode("utf-16"),
        b"{'text': 'a'}",
        b'{"text": "a\n"}',
        b'{"a":' * 5000,
        b"[" * 100_000,
    ],
)
def test_not_a_json_object(post: Post, path: str, body: bytes) -> None:
    assert_error(post(path, body), 400, "InvalidJSON")


BAD_TEXT = [
    ({}, "Field `text` is required"),
    ({"text": None}, "Field `text` must be a string"),
    ({"text": 5}, "Field `text` must be a string"),
    ({"text": ["a"]}, "Field `text` must be a string"),
    ({"text": ""}, "Field `text` must"),
    ({"text": " \u200b\u200f\n"}, "Field `text` must hold at least one letter or digit"),
    ({"text": "!!! ؟ 😢"}, "Field `text` must hold at least one letter or digit"),
    ({"text": "x" * 20_001}, "Field `text` must have at most 20000 characters"),
    ({"text": CALM, "participant_id": ""}, "Field `participant_id` must not be empty"),
    ({"text": CALM, "participant_id": 17}, "Field `participant_id` must be a string"),
    ({"text": CALM, "participant_id": "p" * 129}, "Field `participant_id` must have at most 128 characters"),
    ({"text": 1, "date": 2}, "Field `text` must be a string; Field `date` must be a string"),
]
BAD_DATES = [
    "2026-02-29",
    "2026-13-01",
    "2026-3-1",
    "20260301",
    "2026-03-01T00:00:00",
    "٢٠٢٦-٠٣-٠١",
    "",
    " 2026-03-01",
    "2026-03-01\n",
    "0000-01-01",
]


@pytest.mark.parametrize("path", ["/predict", "/predict-with-alerts"])
@pytest.mark.parametrize(("body", "message"), BAD_TEXT)
def test_bad_text_and_participant(client: httpx.Client, path: str, body: dict[str, Any], message: str) -> None:
    assert_error(client.post(path, json=body), 400, "ValidationError", message)


@pytest.mark.parametrize("date", BAD_DATES)
def test_bad_dates(client: httpx.Client, date: str) -> None:
    message = "must be a calendar day written YYYY-MM-DD"
    response = client.post("/predict", json={"text": CALM, "date": date})
    assert_error(response, 400, "ValidationError", f"Field `date` {message}")
    response = client.post("/alerts", json={"history": [ENTRY, {**ENTRY, "date": date}]})
    assert_error(response, 400, "ValidationError", f"Field `history[1].date` {message}")


@pytest.mark.parametrize("path", ["/alerts", "/predict-with-alerts"])
@pytest.mark.parametrize(
    ("history", "message"),
    [
        ("none", "Field `history` must be an array"),
        ({"0": ENTRY}, "Field `history` must be an array"),
        ([5], "Field `history[0]` must be an object"),
        ([ENTRY, None], "Field `history[1]` must be an object"),
        ([{"depression_score": 1}], "Field `history[0].anxiety_score` is required"),
        (
            [{"depression_score": None, "anxiety_score": 1}],
            "Field `history[0].depression_score` must be an integer from 0 to 3",
        ),
        *[
            (
                [ENTRY, {**ENTRY, "anxiety_score": bad}],
                "Field `history[1].anxiety_score` must be an integer from 0 to 3",
            )
            for bad in (-1, 4, 1.0, 1.5, "1", True, [1], 10**30)
        ],
        ([{}] * 20, "and 35 more"),
        ([ENTRY] * 10_001, "Field `history` must have at most 10000 entries"),
        ([DATED[1], DATED[0]], "Field `history[1].date` is earlier than the entry before it"),
        ([ENTRY, DATED[1], DATED[0]], "Field `history[2].date` is earlier"),
    ],
)
def test_bad_history(client: httpx.Client, path: str, history: Any, message: str) -> None:
    assert_error(client.post(path, json={"text": CALM, "history": history}), 400, "ValidationError", message)


def test_history_is_required_for_alerts(client: httpx.Client) -> None:
    assert_error(client.post("/alerts", json={}), 400, "ValidationError", "Field `history` is required")
    assert_error(
        client.post("/alerts", json={"history": None}), 400, "ValidationError", "Field `history` must be an array"
    )


def test_a_new_text_is_not_older_than_its_history(client: httpx.Client) -> None:
    body = {"text": CALM, "date": "2026-03-07", "history": [*DATED, ENTRY]}
    assert_error(client.post("/predict-with-alerts", json=body), 400, "ValidationError", "Field `date` is earlier")


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/predict/", "/PREDICT", "/predict%2F", "/static_content/marked.min.js"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_no_such_path(client: httpx.Client, method: str, path: str) -> None:
    assert_error(client.request(method, path), 404, "NotFound")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", POSTS)
def test_wrong_method_on_a_post_endpoint(client: httpx.Client, path: str, method: str) -> None:
    response = client.request(method, path)
    assert_error(response, 405, "MethodNotAllowed")
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/health", "/docs.json", "/"])
def test_wrong_method_on_a_page(client: httpx.Client, path: str) -> None:
    response = client.post(path, json={})
    assert_error(response, 405, "MethodNotAllowed")
    assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", POSTS)
def test_one_mebibyte_is_the_limit(post: Post, path: str) -> None:
    body = json.dumps(VALID[path]).encode()
    at_limit = body + b" " * (1024 * 1024 - len(body))
    assert post(path, at_limit).status_code == 200
    assert_error(post(path, at_limit + b" "), 413, "PayloadTooLarge")


def test_a_body_in_chunks_has_the_same_limit(client: httpx.Client) -> None:
    chunks = (b" " * 65536 for _ in range(64))
    response = client.post("/predict", content=chunks, headers={"content-type": "application/json"})
    assert_error(response, 413, "PayloadTooLarge")


def test_what_is_wrong_first_is_said_first(post: Post, client: httpx.Client) -> None:
    large = b"x" * (1024 * 1024 + 1)
    assert_error(client.put("/nothing", content=large), 404, "NotFound")
    assert_error(client.put("/predict", content=large), 405, "MethodNotAllowed")
    assert_error(post("/predict", large, content_type="text/plain"), 415, "UnsupportedMediaType")
    assert_error(post("/predict", large), 413, "PayloadTooLarge")
    assert_error(post("/predict", b'{"text": 1, "x": NaN}'), 400, "InvalidJSON")


def raw_exchange(server: Server, request: bytes, *, leave: bool = False) -> bytes:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(request)
        if leave:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_no_content_type_at_all(server: Server) -> None:
    answer = raw_exchange(
        server, b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    )
    assert b" 415 " in answer.split(b"\r\n")[0]


def test_two_content_types(server: Server) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Type: text/plain\r\n"
    answer = raw_exchange(server, head + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
    assert b" 415 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("path", ["/static_content/../service.py", "/static_content/%2e%2e/service.py", "//predict"])
def test_no_way_out_of_the_known_paths(server: Server, path: str) -> None:
    answer = raw_exchange(server, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert b" 404 " in answer.split(b"\r\n")[0]
    assert b'"NotFound"' in answer


def test_pages_come_whole(client: httpx.Client) -> None:
    for path in ("/static_content/swagger-ui.css", "/static_content/swagger-ui-bundle.js", "/"):
        assert client.get(path, headers={"range": "bytes=999999999-"}).status_code == 200


def test_no_path_speaks_websocket(server: Server) -> None:
    head = b"GET /predict HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    answer = raw_exchange(server, head)
    assert b" 404 " in answer.split(b"\r\n")[0]
    assert b'"NotFound"' in answer


def test_a_client_that_leaves_early_harms_nobody(server: Server, client: httpx.Client) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    raw_exchange(server, head, leave=True)
    assert client.get("/health").status_code == 200
