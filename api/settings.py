"""What whoever runs the service can set, all of it in the environment; without, everything optional is off."""

import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from limits import RateLimitItem, parse_many
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.storage import storage_from_string

DEFAULT_TIMEOUT_SECONDS = 30.0
CLOSABLE = {"docs", "metrics"}


class SettingsError(ValueError):
    """A variable has a value that means nothing; the message names the variable and never its value."""


@dataclass(frozen=True)
class RateLimit:
    """How many requests a key, or without keys an address, may send in a stretch of time, and where that is counted."""

    item: RateLimitItem
    counter: SlidingWindowCounterRateLimiter


@dataclass(frozen=True)
class Settings:
    """The settings of one process.

    Attributes:
        timeout_seconds: how long reading and answering one request may take.
        api_keys: SHA-256 digests of the keys of which one must come with a request; none needed if empty.
        rate_limit: None for no limit.
        cors_origins: web origins whose pages may call the service.
        trusted_proxies: addresses or networks whose `X-Forwarded-For` is believed.
        closed: what answers 404: "docs", "metrics".
    """

    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    api_keys: tuple[bytes, ...] = ()
    rate_limit: RateLimit | None = None
    cors_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    closed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Settings":
        """Read `environment`, usually `os.environ`.

        Raises SettingsError, naming the variable, when a value means nothing.
        """
        closed = frozenset(_listed(environment, "CLOSED"))
        if not closed <= CLOSABLE:
            raise SettingsError(f"CLOSED may list only {' and '.join(sorted(CLOSABLE))}")
        return cls(
            timeout_seconds=_seconds(environment, "REQUEST_TIMEOUT_SECONDS", DEFAULT_TIMEOUT_SECONDS),
            api_keys=_api_keys(environment),
            rate_limit=_rate_limit(environment),
            cors_origins=_origins(environment, "CORS_ORIGINS"),
            trusted_proxies=_networks(environment, "TRUSTED_PROXIES"),
            closed=closed,
        )


def digest(key: bytes) -> bytes:
    """What is kept of an API key."""
    return hashlib.sha256(key).digest()


def _listed(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in environment.get(name, "").split(",") if part.strip())


def _api_keys(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """The keys of API_KEYS, separated by commas, and of the file API_KEYS_FILE, one a line."""
    keys: list[str] = []
    # A variable that is there but holds nothing must not open the service to everyone.
    if "API_KEYS" in environment:
        keys += _some(_listed(environment, "API_KEYS"), "API_KEYS is set but holds no key")
    if "API_KEYS_FILE" in environment:
        try:
            text = Path(environment["API_KEYS_FILE"]).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise SettingsError("API_KEYS_FILE does not name a readable text file") from None
        lines = [line.strip() for line in text.splitlines()]
        in_file = [line for line in lines if line and not line.startswith("#")]
        keys += _some(in_file, "The file of API_KEYS_FILE holds no key")
    return tuple(digest(key.encode("utf-8")) for key in keys)


def _some(keys: Sequence[str], complaint: str) -> Sequence[str]:
    if not keys:
        raise SettingsError(complaint)
    return keys


def _rate_limit(environment: Mapping[str, str]) -> RateLimit | None:
    if not (value := environment.get("RATE_LIMIT", "").strip()):
        return None
    try:
        (item,) = parse_many(value)
    except ValueError:
        raise SettingsError("RATE_LIMIT must be a number of requests in a stretch of time, like 60/minute") from None
    uri = environment.get("RATE_LIMIT_STORAGE") or "memory://"
    try:
        storage = storage_from_string(f"async+{uri}", wrap_exceptions=True, implementation="redispy")
        counter = SlidingWindowCounterRateLimiter(storage)
    except Exception:  # each store fails in its own way, and some say the address with its password
        raise SettingsError(
            "RATE_LIMIT_STORAGE must be the address of a store of the package limits, whose Python client is installed"
        ) from None
    return RateLimit(item, counter)


def _origins(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    origins = _listed(environment, name)
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in {"http", "https"} or not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
            raise SettingsError(f"{name} must list origins like https://app.example, without a path")
    return origins


def _networks(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return tuple(str(ipaddress.ip_network(network)) for network in _listed(environment, name))
    except ValueError:
        raise SettingsError(f"{name} must list addresses or networks like 10.0.0.0/8") from None


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    try:
        seconds = float(environment.get(name, default))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise SettingsError(f"{name} must be a number of seconds above 0")
    return seconds
