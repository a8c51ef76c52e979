"""Who may call: API keys, rate limits and web pages of other origins, all off unless `Settings` asks for them."""

import hmac
import ipaddress
import math
import time

from limits.errors import StorageError
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Scope

from api import errors
from api.settings import Settings, digest


class Gate:
    """Admits a request or says why not."""

    def __init__(self, settings: Settings) -> None:
        self._keys, self._limit = settings.api_keys, settings.rate_limit

    async def admit(self, scope: Scope) -> None:
        """Raises UnauthorizedError, TooManyRequestsError, or UnavailableError when the store of counts is away."""
        caller = self._caller(scope)
        if self._limit is None:
            return
        item, counter = self._limit.item, self._limit.counter
        try:
            if await counter.hit(item, caller):
                return
            reset = (await counter.get_window_stats(item, caller)).reset_time
        except StorageError:
            raise errors.UnavailableError from None
        raise errors.TooManyRequestsError(max(1, math.ceil(reset - time.time())))

    def _caller(self, scope: Scope) -> str:
        """By what the caller is counted: a digest of its key, or its address."""
        if not self._keys:
            return _network(scope["client"][0]) if scope.get("client") else "unknown"
        offered = digest(_offered_key(scope))
        # In constant time, and of digests: the time taken tells nothing of a key.
        if not any(hmac.compare_digest(offered, key) for key in self._keys):
            raise errors.UnauthorizedError
        return offered.hex()


def _network(address: str) -> str:
    """The address; of IPv6 the network of 64 bits, since a caller usually has all of it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return address if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))


def _offered_key(scope: Scope) -> bytes:
    """The key of `Authorization: Bearer` or `X-API-Key`; empty when none came."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    scheme, _, token = headers.get(b"authorization", b"").strip().partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"").strip()


class Cors(CORSMiddleware):
    """Lets pages of some origins call; a refused preflight is told in the contract's shape."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key"],
            expose_headers=["Retry-After", "X-Request-Id"],
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """The answer to a browser that asks before it sends."""
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        refusal = errors.FieldError("Pages of this origin, or this method or header, may not be used from a browser")
        return JSONResponse(refusal.body, refusal.status, {"Vary": "Origin"})
