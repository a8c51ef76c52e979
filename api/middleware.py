"""Everything of the contract that happens before and after an endpoint, as one ASGI layer.

BentoML answers errors in shapes of its own and takes any content type for JSON. This layer
admits only requests that the contract allows, hands the endpoint nothing but validated
fields, and gives every error the one shape.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping

from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import errors
from api.access import Gate
from api.draining import Drain
from api.schemas import (
    AlertsRequest,
    Body,
    PredictRequest,
    PredictWithAlertsRequest,
    parse_json_object,
    validate_fields,
)
from api.settings import Settings

MAX_BODY_BYTES = 1024 * 1024
SCHEMAS: dict[str, type[Body]] = {
    "/predict": PredictRequest,
    "/alerts": AlertsRequest,
    "/predict-with-alerts": PredictWithAlertsRequest,
}
_SCORING = {"/predict", "/predict-with-alerts"}
# The rest of what the service shows. Probes, ours and BentoML's, are open to all.
PROBES = {"/health", "/livez", "/readyz", "/healthz"}
# By the word that closes them; BentoML's client asks for the schema.
_CLOSABLE = {
    "docs": {"/", "/docs.json", "/static_content/swagger-ui.css", "/static_content/swagger-ui-bundle.js"},
    "metrics": {"/metrics"},
}
READ_ONLY = {"/schema.json", *PROBES, *_CLOSABLE["docs"], *_CLOSABLE["metrics"]}
PATHS = frozenset({*SCHEMAS, *READ_ONLY})

logger = logging.getLogger(__name__)


class ContractMiddleware:
    """Wraps the BentoML application.

    Args:
        settings: how long a request may take, what is closed and who may call.
        drain: told what is in flight; once it has begun, new requests are refused.
        is_overloaded: whether texts are refused now; asked before the endpoint, which would refuse at a higher cost.
    """

    def __init__(self, app: ASGIApp, settings: Settings, drain: Drain, is_overloaded: Callable[[], bool]) -> None:
        self.drain, self.is_overloaded = drain, is_overloaded
        self.app, self.timeout_seconds, self.gate = app, settings.timeout_seconds, Gate(settings)
        self.closed = frozenset(path for word in settings.closed for path in _CLOSABLE[word])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await _refuse_websocket(scope, send)
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send, scope["path"])
        try:
            await self._answer(scope, receive, answer)
        except errors.ContractError as error:
            await answer.fail(error)
        except Exception as error:
            # The type alone: a message or a traceback could repeat what was submitted.
            logger.error("Unexpected %s while answering %s", type(error).__name__, scope["method"])
            await answer.fail(errors.InternalError())

    async def _answer(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        try:
            async with asyncio.timeout(self.timeout_seconds) as deadline:
                self._check_route(scope["path"], scope["method"])
                if schema := SCHEMAS.get(scope["path"]):
                    await self._answer_post(schema, scope, receive, answer)
                else:
                    await self.app(_without_range(scope), receive, answer.send)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise errors.RequestTimeoutError(self.timeout_seconds) from None
        if answer.refused is not None:
            raise answer.refused

    async def _answer_post(self, schema: type[Body], scope: Scope, receive: Receive, answer: "_Answer") -> None:
        await self.gate.admit(scope)
        if self.drain.begun:
            raise errors.UnavailableError
        with self.drain.in_flight():
            _check_media_type(scope)
            body = validate_fields(schema, parse_json_object(await _read_body(scope, receive)))
            if scope["path"] in _SCORING and self.is_overloaded():
                raise errors.UnavailableError
            await self.app(_without_range(scope), _replay(body, receive), answer.send)

    def _check_route(self, path: str, method: str) -> None:
        if path not in PATHS or path in self.closed:
            raise errors.NotFoundError
        allowed = ["POST"] if path in SCHEMAS else ["GET", "HEAD"]
        if method not in allowed:
            raise errors.MethodNotAllowedError(", ".join(allowed))


class _Answer:
    """Passes an answer through, except one of 400 or above, which it keeps as a contract error."""

    def __init__(self, send: Send, path: str) -> None:
        self._send, self._path = send, path
        self._started = False
        self.refused: errors.ContractError | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            self.refused = _error_of_status(message["status"], self._path)
        if self.refused is None:
            self._started = True
            await self._send(message)

    async def fail(self, error: errors.ContractError) -> None:
        """Send `error`, unless an answer is already on its way and cannot be taken back."""
        if self._started:
            return
        await _send_error(error, self._send, "http.response")


async def _send_error(error: errors.ContractError, send: Send, message_type: str) -> None:
    body = json.dumps(error.body).encode("utf-8")
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **error.headers}
    await send({"type": f"{message_type}.start", "status": error.status, "headers": _encoded(headers)})
    await send({"type": f"{message_type}.body", "body": body})


async def _refuse_websocket(scope: Scope, send: Send) -> None:
    """No path speaks WebSocket; where the server can, say so in the contract's words."""
    if "websocket.http.response" in scope.get("extensions", {}):
        await _send_error(errors.NotFoundError(), send, "websocket.http.response")
    else:
        await send({"type": "websocket.close", "code": 1000})


def _without_range(scope: Scope) -> Scope:
    """Answers are whole: a part of a page would bring statuses that the contract does not know."""
    return {**scope, "headers": [header for header in scope["headers"] if header[0] != b"range"]}


def _error_of_status(status: int, path: str) -> errors.ContractError | None:
    """What an error made below this layer means, once the request itself was admitted."""
    if (status, path) == (503, "/health"):
        return None  # the one answer above 400 with a body of its own
    if status == 404:
        return errors.NotFoundError()
    return errors.UnavailableError() if status in (429, 503) else errors.InternalError()


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _check_media_type(scope: Scope) -> None:
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-type"]
    media_type, *parameters = values[0].lower().split(";") if len(values) == 1 else [""]
    stripped = {parameter.strip().replace('"', "") for parameter in parameters}
    if media_type.strip() != "application/json" or not stripped <= {"charset=utf-8", ""}:
        raise errors.UnsupportedMediaTypeError


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    if lengths and lengths[0].isdigit() and int(lengths[0]) > MAX_BODY_BYTES:
        raise errors.PayloadTooLargeError(MAX_BODY_BYTES)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            # Nobody reads this answer, but BentoML's timer around us waits for one, up to its limit.
            raise errors.InvalidJSONError
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise errors.PayloadTooLargeError(MAX_BODY_BYTES)
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: BaseModel, receive: Receive) -> Receive:
    """A `receive` that gives the validated fields as the whole body, then what the client does next."""
    pending: list[Message] = [
        {"type": "http.request", "body": body.model_dump_json(exclude_unset=True).encode("utf-8"), "more_body": False}
    ]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed
