"""What whoever runs the service sees of it: one log line per request, and Prometheus metrics.

Neither holds a word of a text, a participant id, or anything else that a caller chose, such as a path that
does not exist.
"""

import json
import logging
import sys
import time
import uuid
from contextvars import ContextVar
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ELSEWHERE = "elsewhere"
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_TEXTS = (1, 2, 4, 8, 16, 32)

REGISTRY = CollectorRegistry()
REQUESTS = Counter("severity_requests", "Requests answered.", ["path", "status"], registry=REGISTRY)
LATENCY = Histogram(
    "severity_request_seconds",
    "From a request to the end of its answer.",
    ["path"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
BATCHES = Histogram(
    "severity_batch_texts", "Texts that shared one call to the runner.", buckets=_TEXTS, registry=REGISTRY
)
WAITING = Gauge("severity_waiting_texts", "Texts that wait for a call to the runner.", registry=REGISTRY)
PREDICTIONS = Counter("severity_predictions", "Predicted levels.", ["target", "level"], registry=REGISTRY)

_requests = logging.getLogger("severity.requests")


@dataclass
class _Facts:
    """What the log line of a request tells beside what the layer sees itself."""

    batch: int | None = None


_facts: ContextVar[_Facts] = ContextVar("facts")


def note_prediction(depression: int, anxiety: int, batch: int) -> None:
    """Count a prediction that shared its call to the runner with `batch` - 1 other texts."""
    PREDICTIONS.labels("depression", depression).inc()
    PREDICTIONS.labels("anxiety", anxiety).inc()
    if facts := _facts.get(None):
        facts.batch = batch


def metrics_page() -> bytes:
    """All metrics in Prometheus' text format."""
    return generate_latest(REGISTRY)


def log_requests_to_stderr() -> None:
    """Let every request leave one line of JSON."""
    if not _requests.handlers:
        _requests.addHandler(logging.StreamHandler(sys.stderr))
        _requests.setLevel(logging.INFO)
        _requests.propagate = False


class TelemetryMiddleware:
    """Logs and counts every HTTP request, and answers with its id in the header `X-Request-Id`.

    Args:
        paths: the paths that are told by name; all others are one.
    """

    def __init__(self, app: ASGIApp, paths: frozenset[str]) -> None:
        self.app, self.paths = app, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, request_id, status = time.perf_counter(), uuid.uuid4().hex, 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        facts = _Facts()
        token = _facts.set(facts)
        try:
            await self.app(scope, receive, send_with_id)
        finally:
            _facts.reset(token)
            seconds = time.perf_counter() - started
            path = scope["path"] if scope["path"] in self.paths else ELSEWHERE
            REQUESTS.labels(path, status).inc()
            LATENCY.labels(path).observe(seconds)
            line = {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "id": request_id,
                "path": path,
                "status": status,
                "ms": round(seconds * 1000, 1),
                "batch": facts.batch,
            }
            _requests.info(json.dumps(line))
