"""What the contract layer does when the application under it fails, hangs or answers in its own shapes."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from api.draining import Drain
from api.middleware import ContractMiddleware
from api.settings import Settings

SECRET = "نص سري لا يجوز أن يظهر"
TIMEOUT = 0.2


def post(
    endpoint: Callable[[Request], Any],
    body: dict[str, Any] | None = None,
    content: Any = None,
    path: str = "/predict",
    overloaded: bool = False,
) -> httpx.Response:
    """One request through the layer to `endpoint`, without a server."""
    app = ContractMiddleware(
        Starlette(routes=[Route(path, endpoint, methods=["POST"])]),
        Settings(timeout_seconds=TIMEOUT),
        Drain(0),
        lambda: overloaded,
    )

    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            data = content if content is not None else json.dumps(body or {"text": SECRET})
            return await client.post(path, content=data, headers={"content-type": "application/json"})

    return asyncio.run(send())


def assert_error(response: httpx.Response, status: int, kind: str) -> None:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error", "message"}
    assert response.json()["error"] == kind
    assert SECRET not in response.text


async def raises(request: Request) -> Response:
    raise RuntimeError((await request.body()).decode())


async def hangs(_: Request) -> Response:
    await asyncio.sleep(30)
    raise AssertionError


def test_a_failure_is_a_fixed_sentence_and_leaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        response = post(raises)
    assert_error(response, 500, "InternalServerError")
    assert "RuntimeError" not in response.text
    assert "RuntimeError" in caplog.text  # whoever runs the service learns what kind of failure it was
    assert SECRET not in caplog.text


def test_an_endpoint_that_hangs_is_a_timeout() -> None:
    assert_error(post(hangs), 504, "Timeout")


def test_a_body_that_does_not_end_is_a_timeout() -> None:
    async def trickle() -> Any:
        yield b'{"text"'
        await asyncio.sleep(30)

    assert_error(post(hangs, content=trickle()), 504, "Timeout")


@pytest.mark.parametrize(
    ("below", "status", "kind"),
    [
        (503, 503, "ServiceUnavailable"),
        (429, 503, "ServiceUnavailable"),
        (500, 500, "InternalServerError"),
        (400, 500, "InternalServerError"),  # BentoML's 400 for a wrong answer of ours; the request was admitted
        (404, 404, "NotFound"),
    ],
)
def test_errors_made_below_take_the_one_shape(below: int, status: int, kind: str) -> None:
    async def refuses(_: Request) -> Response:
        return JSONResponse([{"error": SECRET}], below)

    response = post(refuses)
    assert_error(response, status, kind)
    assert (response.headers.get("retry-after") is not None) == (status == 503)


def test_the_endpoint_gets_nothing_but_validated_fields() -> None:
    async def echo(request: Request) -> Response:
        return PlainTextResponse(await request.body())

    sent = {"text": "نص 1", "date": None, "unknown": [1], "history": "not for /predict"}
    assert post(echo, sent).json() == {"text": "نص 1", "date": None}


def test_an_answer_on_its_way_is_not_followed_by_an_error() -> None:
    messages: list[Any] = []

    async def breaks_off(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"text": "a"}', "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {"type": "http", "path": "/predict", "method": "POST", "headers": [(b"content-type", b"application/json")]}
    asyncio.run(
        ContractMiddleware(breaks_off, Settings(timeout_seconds=TIMEOUT), Drain(0), lambda: False)(scope, receive, send)
    )
    assert [message["type"] for message in messages] == ["http.response.start"]


def test_an_overload_refuses_texts_before_the_endpoint_but_no_history() -> None:
    async def answers(_: Request) -> Response:
        return JSONResponse({})

    for path in ("/predict", "/predict-with-alerts"):
        response = post(answers, path=path, overloaded=True)
        assert_error(response, 503, "ServiceUnavailable")
        assert response.headers["retry-after"] == "1"
    assert_error(post(answers, {"text": 7}, overloaded=True), 400, "ValidationError")
    assert post(answers, {"history": []}, path="/alerts", overloaded=True).status_code == 200
