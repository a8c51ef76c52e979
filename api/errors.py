"""Every error that a caller can meet.

ContractError                        status and kind of one row of the contract
├── InvalidJSONError            400
├── FieldError                  400  ValidationError
├── UnauthorizedError           401  sets WWW-Authenticate
├── NotFoundError               404
├── MethodNotAllowedError       405  sets Allow
├── RequestTimeoutError         504
├── PayloadTooLargeError        413
├── UnsupportedMediaTypeError   415
├── TooManyRequestsError        429  sets Retry-After
├── InternalError               500
└── UnavailableError            503  sets Retry-After

Messages are built from what the service knows, never from what the caller sent.
"""

from collections.abc import Mapping

RETRY_AFTER_SECONDS = 1


class ContractError(Exception):
    """An answer of 400 or above: ``{"error": kind, "message": message}``."""

    status: int
    kind: str

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, str]:
        """The answer's body."""
        return {"error": self.kind, "message": self.message}


class InvalidJSONError(ContractError):
    """The body is not one JSON object."""

    status, kind = 400, "InvalidJSON"

    def __init__(self) -> None:
        super().__init__("The body is not a JSON object in UTF-8")


class FieldError(ContractError):
    """A field is missing or wrong; the message names it."""

    status, kind = 400, "ValidationError"


class UnauthorizedError(ContractError):
    """API keys are configured and none or a wrong one came."""

    status, kind = 401, "Unauthorized"

    def __init__(self) -> None:
        message = "An API key is needed, in the header Authorization: Bearer or X-API-Key"
        super().__init__(message, {"WWW-Authenticate": "Bearer"})


class NotFoundError(ContractError):
    """No such path."""

    status, kind = 404, "NotFound"

    def __init__(self) -> None:
        super().__init__("There is nothing at this path; see / for the endpoints")


class MethodNotAllowedError(ContractError):
    """The path exists, but not with this method."""

    status, kind = 405, "MethodNotAllowed"

    def __init__(self, allowed: str) -> None:
        super().__init__(f"This path answers only to {allowed}", {"Allow": allowed})


class PayloadTooLargeError(ContractError):
    """The body is over the limit."""

    status, kind = 413, "PayloadTooLarge"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"The body is larger than {limit_bytes} bytes")


class UnsupportedMediaTypeError(ContractError):
    """The body does not say that it is JSON in UTF-8."""

    status, kind = 415, "UnsupportedMediaType"

    def __init__(self) -> None:
        super().__init__("The header Content-Type must be application/json, in UTF-8")


class TooManyRequestsError(ContractError):
    """A rate limit is configured and passed."""

    status, kind = 429, "TooManyRequests"

    def __init__(self, retry_after_seconds: int) -> None:
        message = "Too many requests in a short time; try again later"
        super().__init__(message, {"Retry-After": str(retry_after_seconds)})


class InternalError(ContractError):
    """Our fault."""

    status, kind = 500, "InternalServerError"

    def __init__(self) -> None:
        super().__init__("Something went wrong on our side; the request was not at fault")


class UnavailableError(ContractError):
    """Starting, overloaded or shutting down."""

    status, kind = 503, "ServiceUnavailable"

    def __init__(self) -> None:
        super().__init__(
            "The service cannot answer right now; try again shortly", {"Retry-After": str(RETRY_AFTER_SECONDS)}
        )


class RequestTimeoutError(ContractError):
    """Not answered in time."""

    status, kind = 504, "Timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request was not answered within {seconds:g} seconds")
