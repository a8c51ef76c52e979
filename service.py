"""The wiring: SeverityRunner holds the models, SeverityService the four endpoints."""

import asyncio
import logging
import os
import time
from collections.abc import Sequence

import aiohttp
import bentoml
import httpx
from bentoml.models import BentoModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from alerts import HistoryEntry, find_alerts
from api import schemas
from api.access import Cors
from api.coalescing import Coalescer, QueueFullError
from api.draining import Drain
from api.errors import RETRY_AFTER_SECONDS
from api.middleware import PATHS, ContractMiddleware
from api.openapi import DOCS_PAGE, openapi_document
from api.settings import Settings, SettingsError
from api.telemetry import BATCHES, WAITING, TelemetryMiddleware, log_requests_to_stderr, metrics_page, note_prediction
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, KNOWN_TEXTS, load_models, project_version

logger = logging.getLogger("bentoml.severity")
SERVICE_NAME = "arabic-mood-severity"
VERSION = project_version()
try:
    SETTINGS = Settings.of(os.environ)
except SettingsError as error:
    raise SystemExit(str(error)) from None
# The server would believe every caller on this machine about its address; an empty list believes none.
os.environ["FORWARDED_ALLOW_IPS"] = ",".join(SETTINGS.trusted_proxies)
# BentoML's own time limit answers outside the contract; ours must always come first.
TRAFFIC: dict[str, float] = {"timeout": SETTINGS.timeout_seconds + 30}
# BentoML's access log and metrics repeat every path that was asked for, known or not; ours do not.
QUIET = {
    "logging": {"access": {"enabled": False}},
    "metrics": {"enabled": False},
    "tracing": {"excluded_urls": ".*"},
}
# Together below two seconds, in which a dead runner must be noticed.
HEALTH_CHECK_SECONDS = 1.4
HEALTH_KEPT_SECONDS = 0.4


def without_traceback(record: logging.LogRecord) -> bool:
    """Keep what failed, drop how: a traceback shows file paths, and its message could repeat a text."""
    if record.exc_info and record.exc_info[0]:
        record.msg += f" ({record.exc_info[0].__name__})"
        record.exc_info = None
    return True


# BentoML logs every exception of an endpoint here, in this process and in the runner's.
logging.getLogger("bentoml._internal.server.http_app").addFilter(without_traceback)

# depression, anxiety, language: a plain tuple crosses the process boundary most cheaply.
Answer = tuple[int, int, str]


# One thread for the texts of callers, one for the check of health, which waits for none of them.
@bentoml.service(name="SeverityRunner", traffic=TRAFFIC, threads=2, **QUIET)
class SeverityRunner:
    """The runner: holds the models and scores a list of texts, each by itself."""

    encoder = BentoModel(f"{ENCODER_TAG}:latest")
    classifier = BentoModel(f"{CLASSIFIER_TAG}:latest")

    def __init__(self) -> None:
        from model_store.graph import instruction_sets, usable_cores  # not for the service's own process

        self.model = load_models(self.encoder, self.classifier)
        self.model.score(KNOWN_TEXTS)  # the first forward pass is slow; let no caller wait for it
        logger.info("8-bit integers on %d cores, with %s", usable_cores(), ", ".join(instruction_sets()) or "any")
        # The service may have more for the runner as long as it drains itself.
        self.drain = Drain(quiet_seconds=1.5)
        self.drain.watch()

    @bentoml.api
    def score(self, texts: list[str]) -> list[Answer]:
        """Depression level, anxiety level and language code of each text, in order."""
        with self.drain.in_flight():
            return [tuple(severity) for severity in self.model.score(texts)]


mounted_app = Starlette()
# Longer than the runner's, so that whoever comes last is refused in words and not left without an answer.
DRAIN = Drain(quiet_seconds=2.0)


@bentoml.service(name="SeverityService", traffic=TRAFFIC, **QUIET)
@bentoml.asgi_app(mounted_app, path="/")
class SeverityService:
    """The four endpoints. `GET /health` and the OpenAPI document are mounted below."""

    runner = bentoml.depends(SeverityRunner)
    classifier = BentoModel(f"{CLASSIFIER_TAG}:latest")

    def __init__(self) -> None:
        facts = self.classifier.info.metadata
        self.embedding_model, self.classifier_name = str(facts["embedding_model"]), str(facts["classifier"])
        self.known_answers = [tuple(levels) for levels in facts["known_answers"]]
        self.coalescer: Coalescer[Answer] = Coalescer(self._score_waiting)
        WAITING.set_function(lambda: len(self.coalescer))
        log_requests_to_stderr()
        DRAIN.watch()
        self.health_lock = asyncio.Lock()
        self.healthy, self.checked_at = False, float("-inf")
        self.was_ever_healthy = False

    @bentoml.api(route="/predict", input_spec=schemas.PredictRequest)
    async def predict(
        self, text: str, participant_id: str | None = None, date: str | None = None
    ) -> schemas.PredictionResponse:
        """Severity of one text."""
        return self._response(await self._score(text))

    @bentoml.api(route="/alerts", input_spec=schemas.AlertsRequest)
    async def alerts(
        self, history: list[schemas.HistoryEntry], participant_id: str | None = None
    ) -> schemas.AlertsResponse:
        """Alerts over a history of scores."""
        found = find_alerts([entry.for_alerts() for entry in history])
        return schemas.AlertsResponse(participant_id=participant_id, alerts=[schemas.Alert.of(a) for a in found])

    @bentoml.api(route="/predict-with-alerts", input_spec=schemas.PredictWithAlertsRequest)
    async def predict_with_alerts(
        self,
        text: str,
        participant_id: str | None = None,
        date: str | None = None,
        history: list[schemas.HistoryEntry] | None = None,
    ) -> schemas.PredictionResponse:
        """Severity of one text, and alerts over the history it continues."""
        scored = await self._score(text)
        entries = [entry.for_alerts() for entry in history or []]
        return self._response(scored, [*entries, HistoryEntry(scored[0], scored[1], date)])

    async def is_healthy(self) -> bool:
        """Whether the known texts get their known answers from the runner; the finding is kept for a moment."""
        async with self.health_lock:
            if time.monotonic() - self.checked_at > HEALTH_KEPT_SECONDS:
                self.healthy, self.checked_at = await self._knows_answers(), time.monotonic()
                self.was_ever_healthy |= self.healthy
            return self.healthy

    def _response(self, scored: Answer, history: Sequence[HistoryEntry] = ()) -> schemas.PredictionResponse:
        depression, anxiety, language = scored
        return schemas.PredictionResponse(
            depression_score=depression,
            anxiety_score=anxiety,
            alerts=[schemas.Alert.of(alert) for alert in find_alerts(history)],
            meta=schemas.Meta(embedding_model=self.embedding_model, classifier=self.classifier_name, language=language),
        )

    async def _score(self, text: str) -> Answer:
        if not self.was_ever_healthy and not await self.is_healthy():
            raise bentoml.exceptions.ServiceUnavailable("starting")
        try:
            answer, batch = await self.coalescer.score(text)
        except QueueFullError:
            raise bentoml.exceptions.ServiceUnavailable("overloaded") from None
        note_prediction(answer[0], answer[1], batch)
        return answer

    async def _score_waiting(self, texts: list[str]) -> Sequence[Answer]:
        BATCHES.observe(len(texts))
        return await self._score_batch(texts)

    async def _score_batch(self, texts: list[str]) -> Sequence[Answer]:
        try:
            return await self.runner.to_async.score(texts=texts)
        except (aiohttp.ClientError, httpx.TransportError):
            raise bentoml.exceptions.ServiceUnavailable("the runner went away") from None

    async def _knows_answers(self) -> bool:
        try:
            async with asyncio.timeout(HEALTH_CHECK_SECONDS):
                answers = await asyncio.gather(*(self._score_batch([text]) for text in KNOWN_TEXTS))
        except (TimeoutError, bentoml.exceptions.BentoMLException):
            return False
        return [answer[:2] for (answer,) in answers] == self.known_answers


async def health(_: Request) -> JSONResponse:
    """200 when a prediction can be served now, else 503 with the same fields."""
    healthy = not DRAIN.begun and await bentoml.get_current_service().is_healthy()
    body = schemas.HealthResponse(status="ok" if healthy else "unavailable", service=SERVICE_NAME, version=VERSION)
    headers = None if healthy else {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return JSONResponse(body.model_dump(), 200 if healthy else 503, headers)


async def openapi(_: Request) -> JSONResponse:
    """The published OpenAPI document, in the place of the one BentoML makes."""
    return JSONResponse(openapi_document(VERSION, SETTINGS))


async def docs_page(_: Request) -> HTMLResponse:
    """The OpenAPI document for people."""
    return HTMLResponse(DOCS_PAGE)


async def metrics(_: Request) -> Response:
    """Counts and times in Prometheus' text format."""
    return Response(metrics_page(), media_type="text/plain; version=0.0.4")


def is_overloaded() -> bool:
    """Whether so many texts wait that a further one is refused."""
    return bool(bentoml.get_current_service().coalescer.is_full)


mounted_app.routes.extend(
    [
        Route("/health", health),
        Route("/docs.json", openapi),
        Route("/", docs_page),
        Route("/metrics", metrics),
    ]
)
# The first is the outermost.
add_layer = SeverityService.add_asgi_middleware  # type: ignore[attr-defined]
add_layer(TelemetryMiddleware, paths=PATHS)
if SETTINGS.cors_origins:
    add_layer(Cors, origins=SETTINGS.cors_origins)
add_layer(ContractMiddleware, settings=SETTINGS, drain=DRAIN, is_overloaded=is_overloaded)
