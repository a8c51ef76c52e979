"""The published OpenAPI document: what the service really takes, answers and refuses."""

from typing import Any

from pydantic.json_schema import models_json_schema

from api import errors, schemas
from api.settings import Settings

_NOTICE = (
    "Predicts the severity of depression and of anxiety (0 none to 3 severe) from Arabic text, and gives plain alerts "
    "over a history of scores.\n\n"
    "**A research prototype, not a medical device.** Do not use it for diagnosis, treatment decisions or emergencies. "
    "Send only synthetic or consented data, and no personal data."
)
_HISTORY_EXAMPLE = [
    {"date": "2026-03-01", "depression_score": 0, "anxiety_score": 1},
    {"date": "2026-03-08", "depression_score": 1, "anxiety_score": 1},
    {"date": "2026-03-15", "depression_score": 2, "anxiety_score": 1},
]
_TEXT_EXAMPLE = {"text": "اليوم طبخنا الرز وتفرجنا على المباراة", "participant_id": "p-017", "date": "2026-03-22"}
_ERRORS_OF_POST: dict[int, str] = {
    400: "`InvalidJSON` when the body is not a JSON object, `ValidationError` when a field is missing or wrong",
    413: "`PayloadTooLarge`: the body is over 1 MiB",
    415: "`UnsupportedMediaType`: the content type is not JSON in UTF-8",
    500: "`InternalServerError`: our fault",
    503: "`ServiceUnavailable`: starting, overloaded or shutting down",
    504: "`Timeout`: not answered in time",
}
_OTHER_ERRORS = (
    "\n\nAny other path answers 404 `NotFound`; a wrong method answers 405 `MethodNotAllowed` with the header `Allow`."
)


def openapi_document(version: str, settings: Settings) -> dict[str, Any]:
    """OpenAPI 3.1 of the four endpoints, for a service of `version` that is run with `settings`."""
    document = _open_document(version)
    posts = [methods["post"] for methods in document["paths"].values() if "post" in methods]
    if settings.api_keys:
        document["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        refusal = {**_error(401, "`Unauthorized`: no API key or a wrong one"), "headers": _header("WWW-Authenticate")}
        for post in posts:
            post["security"] = [{"bearer": []}, {"key": []}]
            post["responses"]["401"] = refusal
    if settings.rate_limit:
        for post in posts:
            post["responses"]["429"] = _error(429, "`TooManyRequests`: the rate limit is passed")
    return document


def _open_document(version: str) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Arabic mood severity", "version": version, "description": _NOTICE + _OTHER_ERRORS},
        "paths": {
            "/health": {"get": _health()},
            "/predict": {
                "post": _post(
                    "predict",
                    "Severity of one text",
                    schemas.PredictRequest,
                    schemas.PredictionResponse,
                    _TEXT_EXAMPLE,
                )
            },
            "/alerts": {
                "post": _post(
                    "alerts",
                    "Alerts over a history of scores",
                    schemas.AlertsRequest,
                    schemas.AlertsResponse,
                    {"participant_id": "p-017", "history": _HISTORY_EXAMPLE},
                )
            },
            "/predict-with-alerts": {
                "post": _post(
                    "predict_with_alerts",
                    "Severity of one text, and alerts over the history it continues",
                    schemas.PredictWithAlertsRequest,
                    schemas.PredictionResponse,
                    {**_TEXT_EXAMPLE, "history": _HISTORY_EXAMPLE},
                )
            },
        },
        "components": {"schemas": _component_schemas()},
    }


def _component_schemas() -> dict[str, Any]:
    requests = (schemas.PredictRequest, schemas.AlertsRequest, schemas.PredictWithAlertsRequest)
    responses = (
        schemas.PredictionResponse,
        schemas.AlertsResponse,
        schemas.Alert,
        schemas.HealthResponse,
        schemas.ErrorResponse,
    )
    modes: list[Any] = [(model, "validation") for model in (*requests, *responses)]
    _, document = models_json_schema(modes, ref_template="#/components/schemas/{model}")
    components: dict[str, Any] = document["$defs"]
    for model in responses:
        # What we answer has exactly these fields, and all of them, but for the window of a spike.
        component = components[model.__name__]
        component["additionalProperties"] = False
        component["required"] = [name for name in component["properties"] if name != "window"]
    return components


def _post(
    operation: str, summary: str, request: type[Any], response: type[Any], example: dict[str, Any]
) -> dict[str, Any]:
    body = {"schema": _reference(request.__name__), "example": example}
    return {
        "operationId": operation,
        "summary": summary,
        "description": response.__doc__,
        "requestBody": {"required": True, "content": {"application/json": body}},
        "responses": {
            "200": _json_response("Success", response.__name__),
            **{str(status): _error(status, text) for status, text in _ERRORS_OF_POST.items()},
        },
    }


def _health() -> dict[str, Any]:
    return {
        "operationId": "health",
        "summary": "Whether a prediction can be served now",
        "description": "200 only when a known text has just got its known answer from the model.",
        "responses": {
            "200": _json_response("Healthy", "HealthResponse"),
            "503": {**_json_response("Not healthy", "HealthResponse"), "headers": _retry_after()},
            "500": _error(500, _ERRORS_OF_POST[500]),
            "504": _error(504, _ERRORS_OF_POST[504]),
        },
    }


def _error(status: int, description: str) -> dict[str, Any]:
    response = _json_response(description, "ErrorResponse")
    retried = {errors.UnavailableError.status, errors.TooManyRequestsError.status}
    return {**response, "headers": _retry_after()} if status in retried else response


def _retry_after() -> dict[str, Any]:
    return _header("Retry-After", pattern="^[0-9]+$", description="Seconds to wait")


def _header(name: str, description: str = "", **schema: str) -> dict[str, Any]:
    return {name: {"description": description, "schema": {"type": "string", **schema}}}


def _json_response(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _reference(schema)}}}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


# BentoML's own page reports every visit to an analytics host; this one asks nobody but the service.
DOCS_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<title>Arabic mood severity</title>
<link rel="stylesheet" href="static_content/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="static_content/swagger-ui-bundle.js" charset="UTF-8"></script>
<script>SwaggerUIBundle({url: "docs.json", dom_id: "#swagger-ui"});</script>
</body>
</html>
"""
