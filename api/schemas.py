"""Bodies of requests and responses, and the sentences that say what is wrong with one."""

import re
from collections.abc import Iterator, Sequence
from datetime import date as calendar_date
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic import ValidationError as PydanticError
from pydantic_core import ErrorDetails, PydanticCustomError, from_json

import alerts
from alerts.schemas import AlertType, Target
from api.errors import FieldError, InvalidJSONError
from model_store.normalisation import LONGEST_TEXT, has_content

MAX_HISTORY = 10_000
MAX_PARTICIPANT_ID = 128
_ERRORS_NAMED = 5
_LEVEL_RULE = "must be an integer from 0 to 3"
_RULES = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "list_type": "must be an array",
    "too_long": "must have at most {max_length} entries",
    "int_type": _LEVEL_RULE,
    "greater_than_equal": _LEVEL_RULE,
    "less_than_equal": _LEVEL_RULE,
}
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _real_day(value: str) -> str:
    try:
        if not _ISO_DATE.fullmatch(value):
            raise ValueError
        calendar_date.fromisoformat(value)
    except ValueError:
        raise PydanticCustomError("own", "must be a calendar day written YYYY-MM-DD") from None
    return value


def _readable(value: str) -> str:
    if not has_content(value):
        raise PydanticCustomError("own", "must hold at least one letter or digit")
    return value


# JSON Schema cannot tell 1.0 from 1; listing the levels at least shows which spelling is meant.
Level = Annotated[
    int,
    Field(
        ge=0,
        le=3,
        description="Severity: 0 none, 1 mild, 2 moderate, 3 severe; a JSON integer, never 1.0",
        json_schema_extra={"enum": [0, 1, 2, 3]},
    ),
]
Text = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_TEXT,
        description="Arabic text, with at least one letter (tatweel is none) or digit; read to its end, however long",
        examples=["تعبان من الشغل بس الحمد لله"],
        json_schema_extra={"pattern": r"[\p{L}\p{N}]"},
    ),
    AfterValidator(_readable),
]
Day = Annotated[
    str,
    Field(
        description="A real calendar day as YYYY-MM-DD",
        json_schema_extra={"format": "date", "pattern": f"^{_ISO_DATE.pattern}$"},
        examples=["2026-03-14"],
    ),
    AfterValidator(_real_day),
]
ParticipantId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_PARTICIPANT_ID,
        description="The caller's own identifier of a person; never stored, never logged",
        examples=["p-017"],
    ),
]


class Body(BaseModel):
    """What callers send: no coercion, unknown fields ignored, nothing repeated in an error."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)


BodyT = TypeVar("BodyT", bound=Body)


class HistoryEntry(Body):
    """The two scores of one earlier day."""

    date: Day | None = None
    depression_score: Level
    anxiety_score: Level

    def for_alerts(self) -> alerts.HistoryEntry:
        """The same entry as the alert rules read it."""
        return alerts.HistoryEntry(self.depression_score, self.anxiety_score, self.date)


History = Annotated[
    list[HistoryEntry],
    Field(
        max_length=MAX_HISTORY,
        description="Earlier scores, oldest first; of two dated neighbours the later must not be earlier",
    ),
]


class PredictRequest(Body):
    """One text to score."""

    text: Text
    participant_id: ParticipantId | None = None
    date: Day | None = None


class AlertsRequest(Body):
    """A history of scores to apply the alert rules to."""

    participant_id: ParticipantId | None = None
    history: History


class PredictWithAlertsRequest(PredictRequest):
    """One text to score, and the history it continues."""

    history: History | None = None


class Meta(BaseModel):
    """How the scores came about."""

    embedding_model: str = Field(description="Name of the text embedding model")
    classifier: str = Field(description="Name of the classifier")
    language: str = Field(description="ISO 639-1 code of the text's language, `und` when nothing can be told")


class Alert(BaseModel):
    """One alert rule that fired at the newest entry."""

    type: AlertType
    target: Target
    window: int | None = Field(
        default=None,
        description="Number of entries the rule looks at; absent on SuddenSpike",
        json_schema_extra={"anyOf": [{"type": "integer"}]},
    )
    triggered: Literal[True] = True
    reason: str = Field(description="The numbers, and dates where given, that made the rule fire")

    @classmethod
    def of(cls, alert: alerts.Alert) -> "Alert":
        """The alert as it goes over the wire."""
        return cls(type=alert.type, target=alert.target, window=alert.window, reason=alert.reason)

    @model_serializer(mode="wrap")
    def _without_empty_window(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


class PredictionResponse(BaseModel):
    """Two severities, the alerts that fired, and how the scores came about."""

    depression_score: Level
    anxiety_score: Level
    alerts: list[Alert]
    meta: Meta


class AlertsResponse(BaseModel):
    """The alerts that fired; `participant_id` is null when none was sent."""

    participant_id: str | None
    alerts: list[Alert]


class HealthResponse(BaseModel):
    """Whether a prediction can be served now."""

    status: str = Field(description="`ok` when healthy, anything else when not", examples=["ok"])
    service: str
    version: str


class ErrorResponse(BaseModel):
    """The body of every answer of 400 or above."""

    error: str = Field(description="Error kind", examples=["ValidationError"])
    message: str = Field(description="What is wrong, in a sentence", examples=["Field `text` is required"])


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Parse `body` by the letter of RFC 8259.

    Raises InvalidJSONError for anything but one object: also NaN, lone surrogates, invalid UTF-8.
    """
    try:
        value = from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        raise InvalidJSONError from None
    if not isinstance(value, dict):
        raise InvalidJSONError
    return value


def validate_fields(schema: type[BodyT], fields: dict[str, Any]) -> BodyT:
    """Check `fields` against `schema` and the order of dates in a history.

    Raises FieldError with a sentence that names each wrong field, at most five of them.
    """
    try:
        body = schema.model_validate(fields)
    except PydanticError as error:
        details = error.errors(include_url=False, include_context=True, include_input=False)
        raise FieldError(_sentence([_complaint(detail) for detail in details])) from None
    _check_order(getattr(body, "history", None) or [], getattr(body, "date", None))
    return body


def _check_order(history: Sequence[HistoryEntry], newest: str | None) -> None:
    previous: str | None = None
    for index, entry in enumerate(history):
        if previous is not None and entry.date is not None and entry.date < previous:
            raise FieldError(f"Field `history[{index}].date` is earlier than the entry before it; oldest comes first")
        previous = entry.date
    last_dated = next((entry.date for entry in reversed(history) if entry.date is not None), None)
    if newest is not None and last_dated is not None and newest < last_dated:
        raise FieldError("Field `date` is earlier than the last dated entry of `history`")


def _sentence(complaints: Sequence[str]) -> str:
    named = list(complaints[:_ERRORS_NAMED])
    if len(complaints) > _ERRORS_NAMED:
        named.append(f"and {len(complaints) - _ERRORS_NAMED} more")
    return "; ".join(named)


def _complaint(detail: ErrorDetails) -> str:
    return f"Field `{''.join(_path(detail['loc']))}` {_rule_broken(detail)}"


def _path(location: Sequence[int | str]) -> Iterator[str]:
    for position, step in enumerate(location):
        yield f"[{step}]" if isinstance(step, int) else f".{step}" if position else step


def _rule_broken(detail: ErrorDetails) -> str:
    if detail["type"] == "own":
        return detail["msg"]
    return _RULES.get(detail["type"], "must be an object").format(**detail.get("ctx", {}))
