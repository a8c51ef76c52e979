"""What whoever runs the service can set, all of it in the environment; without, everything optional is off."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from limits import RateLimitItem, parse

DEFAULT_TIMEOUT_SECONDS = 30.0
CLOSABLE = {"docs", "metrics"}


class SettingsError(ValueError):
    """A variable has a value that means nothing; the message names the variable and never its value."""


@dataclass(frozen=True)
class Settings:
    """The settings of one process.

    Attributes:
        timeout_seconds: how long reading and answering one request may take.
        api_keys: SHA-256 digests of the keys of which one must come with a request; none needed if empty.
        rate_limit: how many requests a key, or without keys an address, may send in a stretch of time.
        rate_limit_storage: where the counts are kept, as the package `limits` names stores.
        cors_origins: web origins whose pages may call the service.
        trusted_proxies: addresses or networks whose `X-Forwarded-For` is believed.
        closed: what answers 404: "docs", "metrics".
    """

    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    api_keys: tuple[bytes, ...] = ()
    rate_limit: RateLimitItem | None = None
    rate_limit_storage: str = "memory://"
    cors_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    closed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Settings":
        """Read `environment`, usually `os.environ`.

        Raises SettingsError, naming the variable, when a value means nothing, and FileNotFoundError when the file of
        keys is not there.
        """
        closed = frozenset(_listed(environment, "CLOSED"))
        if not closed <= CLOSABLE:
            raise SettingsError(f"CLOSED may list only {' and '.join(sorted(CLOSABLE))}")
        return cls(
            timeout_seconds=_seconds(environment, "REQUEST_TIMEOUT_SECONDS", DEFAULT_TIMEOUT_SECONDS),
            api_keys=_api_keys(environment),
            rate_limit=_rate_limit(environment, "RATE_LIMIT"),
            rate_limit_storage=environment.get("RATE_LIMIT_STORAGE", "memory://"),
            cors_origins=_listed(environment, "CORS_ORIGINS"),
            trusted_proxies=_listed(environment, "TRUSTED_PROXIES"),
            closed=closed,
        )


def digest(key: str) -> bytes:
    """What is kept of an API key."""
    return hashlib.sha256(key.encode("utf-8")).digest()


def _listed(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in environment.get(name, "").split(",") if part.strip())


def _api_keys(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """The keys of API_KEYS, separated by commas, and of the file API_KEYS_FILE, one a line."""
    keys = list(_listed(environment, "API_KEYS"))
    if file := environment.get("API_KEYS_FILE"):
        lines = (line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines())
        in_file = [line for line in lines if line and not line.startswith("#")]
        if not in_file:
            # An empty file must not open the service to everyone.
            raise SettingsError("The file of API_KEYS_FILE holds no key")
        keys += in_file
    if "API_KEYS" in environment and not _listed(environment, "API_KEYS"):
        raise SettingsError("API_KEYS is set but holds no key")
    return tuple(digest(key) for key in keys)


def _rate_limit(environment: Mapping[str, str], name: str) -> RateLimitItem | None:
    if not (value := environment.get(name, "").strip()):
        return None
    try:
        return parse(value)
    except ValueError:
        raise SettingsError(f"{name} must be a number of requests in a stretch of time, like 60/minute") from None


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    try:
        seconds = float(environment.get(name, default))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise SettingsError(f"{name} must be a number of seconds above 0")
    return seconds
