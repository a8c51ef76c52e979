"""Keys, rate limits, closed pages, foreign origins and proxies: off by default, and right when asked for."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from api.access import Cors
from api.draining import Drain
from api.middleware import ContractMiddleware
from api.openapi import openapi_document
from api.settings import Settings, SettingsError, digest
from tests.conftest import serving

KEY, OTHER = "zq-first-key-zq", "zq-other-key-zq"
JSON = {"content-type": "application/json"}


async def predicts(_: Request) -> JSONResponse:
    return JSONResponse({})


async def reads(_: Request) -> JSONResponse:
    return JSONResponse({})


def app_with(environment: Mapping[str, str]) -> Any:
    """The contract layer, set up by `environment`, over endpoints that always answer."""
    settings = Settings.of(environment)
    routes = [Route("/predict", predicts, methods=["POST"])]
    routes += [Route(path, reads) for path in ("/health", "/livez", "/readyz", "/metrics", "/", "/docs.json")]
    app = ContractMiddleware(Starlette(routes=routes), settings, Drain(0), lambda: False)
    return Cors(app, settings.cors_origins) if settings.cors_origins else app


def ask(app: Any, *requests: tuple[str, str, dict[str, str]], client: str = "192.0.2.1") -> list[httpx.Response]:
    """Send (method, path, headers), one after the other."""

    async def send() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            return [
                await http.request(method, path, headers=headers, content=b'{"text": "a"}')
                for method, path, headers in requests
            ]

    return asyncio.run(send())


def test_without_settings_everybody_may_call() -> None:
    assert [answer.status_code for answer in ask(app_with({}), *[("POST", "/predict", JSON)] * 50)] == [200] * 50


def test_one_of_the_keys_must_come_by_either_header() -> None:
    app = app_with({"API_KEYS": f"{KEY}, {OTHER}"})
    right = [{"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer {OTHER}"}, {"x-api-key": OTHER}]
    wrong = [{}, {"authorization": f"Basic {KEY}"}, {"x-api-key": KEY[:-1]}, {"authorization": "Bearer "}]
    answers = ask(app, *[("POST", "/predict", JSON | headers) for headers in right + wrong])
    assert [answer.status_code for answer in answers] == [200] * 3 + [401] * 4
    for refused in answers[3:]:
        assert refused.json()["error"] == "Unauthorized"
        assert "www-authenticate" in refused.headers
        assert KEY not in refused.text
    # A wrong key is told before a wrong media type, a wrong method before a key.
    assert [a.status_code for a in ask(app, ("POST", "/predict", {}), ("GET", "/predict", {}))] == [401, 405]
    assert [a.status_code for a in ask(app, *[("GET", path, {}) for path in ("/health", "/livez", "/readyz")])] == [
        200
    ] * 3


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{KEY}\n\n{OTHER}\n", encoding="utf-8")
    assert Settings.of({"API_KEYS_FILE": str(file)}).api_keys == (digest(KEY.encode()), digest(OTHER.encode()))
    file.write_text("# none yet\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="API_KEYS_FILE holds no key"):
        Settings.of({"API_KEYS_FILE": str(file)})


def test_a_rate_is_counted_for_each_address() -> None:
    app = app_with({"RATE_LIMIT": "3/year"})
    answers = ask(app, *[("POST", "/predict", JSON)] * 4, ("GET", "/health", {}))
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 200]
    assert answers[3].json()["error"] == "TooManyRequests"
    assert 60 < int(answers[3].headers["retry-after"]) <= 366 * 86_400
    assert ask(app, ("POST", "/predict", JSON), client="192.0.2.2")[0].status_code == 200


def test_a_rate_is_counted_for_each_key() -> None:
    app = app_with({"RATE_LIMIT": "2/minute", "API_KEYS": f"{KEY},{OTHER}"})
    by_key = [("POST", "/predict", JSON | {"x-api-key": key}) for key in (KEY, KEY, KEY, OTHER)]
    assert [answer.status_code for answer in ask(app, *by_key)] == [200, 200, 429, 200]


def test_closed_pages_are_not_there() -> None:
    paths = ("/", "/docs.json", "/metrics", "/health")
    for closed, expected in (
        ("docs", [404, 404, 200, 200]),
        ("metrics", [200, 200, 404, 200]),
        ("docs,metrics", [404] * 3 + [200]),
    ):
        answers = ask(app_with({"CLOSED": closed}), *[("GET", path, {}) for path in paths])
        assert [answer.status_code for answer in answers] == expected


def test_pages_of_named_origins_may_call() -> None:
    app = app_with({"CORS_ORIGINS": "https://app.example", "API_KEYS": KEY})
    preflight = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,x-api-key"}
    named, other, refused = ask(
        app,
        ("OPTIONS", "/predict", preflight | {"origin": "https://app.example"}),
        ("OPTIONS", "/predict", preflight | {"origin": "https://zqevil.example"}),
        ("POST", "/predict", JSON | {"origin": "https://app.example"}),
    )
    assert named.status_code == 200
    assert named.headers["access-control-allow-origin"] == "https://app.example"
    assert (other.status_code, other.json()["error"]) == (400, "ValidationError")
    assert "access-control-allow-origin" not in other.headers
    assert "zqevil" not in other.text
    # Errors too can be read by the page.
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://app.example")


def test_a_store_of_counts_that_is_away_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    from limits.errors import StorageError

    app = app_with({"RATE_LIMIT": "3/minute"})

    async def away(*_: Any) -> bool:
        raise StorageError(RuntimeError("no route to 192.0.2.9"))

    monkeypatch.setattr(app.gate._limit.counter, "hit", away)
    (answer,) = ask(app, ("POST", "/predict", JSON))
    assert (answer.status_code, answer.json()["error"]) == (503, "ServiceUnavailable")
    assert "192.0.2.9" not in answer.text


@pytest.mark.parametrize("uri", ["zqdis://:secret@host", "redis+zq://", "nothing"])
def test_a_store_that_is_none_stops_the_start_without_its_address(uri: str) -> None:
    with pytest.raises(SettingsError, match="RATE_LIMIT_STORAGE") as refusal:
        Settings.of({"RATE_LIMIT": "3/minute", "RATE_LIMIT_STORAGE": uri})
    assert "secret" not in str(refusal.value)
    assert refusal.value.__suppress_context__


def test_only_one_limit_can_be_named() -> None:
    with pytest.raises(SettingsError, match="RATE_LIMIT must be"):
        Settings.of({"RATE_LIMIT": "10/second;100/day"})


def test_callers_of_one_ipv6_network_share_their_rate() -> None:
    app = app_with({"RATE_LIMIT": "1/minute"})
    callers = ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")
    assert [ask(app, ("POST", "/predict", JSON), client=one)[0].status_code for one in callers] == [200, 429, 200]


def test_all_settings_together_on_a_real_server(training: Path, tmp_path: Path) -> None:
    with (
        serving(
            "service:SeverityService",
            tmp_path / "log",
            API_KEYS=KEY,
            RATE_LIMIT="4/minute",
            CORS_ORIGINS="https://app.example",
            CLOSED="docs,metrics",
        ) as server,
        httpx.Client(base_url=server.url, headers={"origin": "https://app.example"}) as client,
    ):
        refused = client.post("/predict", json={"text": "كلام"})
        client.headers["x-api-key"] = KEY
        answers = [client.post("/predict", json={"text": "كلام"}) for _ in range(5)]
        closed = [client.get(path).status_code for path in ("/", "/docs.json", "/metrics", "/health")]
    assert [answer.status_code for answer in (refused, *answers)] == [401, 200, 200, 200, 200, 429]
    for answer in (refused, *answers):
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-request-id" in answer.headers
    assert closed == [404, 404, 404, 200]
    assert KEY not in (tmp_path / "log").read_text(encoding="utf-8")


@pytest.mark.parametrize(("proxies", "statuses"), [("", [200, 429]), ("127.0.0.1", [200, 200])])
def test_a_forwarded_address_is_believed_of_trusted_proxies_alone(
    training: Path, tmp_path: Path, proxies: str, statuses: list[int]
) -> None:
    log = tmp_path / "log"
    with serving("service:SeverityService", log, RATE_LIMIT="1/minute", TRUSTED_PROXIES=proxies) as server:
        found = [
            httpx.post(f"{server.url}/alerts", json={"history": []}, headers={"x-forwarded-for": address}).status_code
            for address in ("192.0.2.1", "192.0.2.2")
        ]
    assert found == statuses


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RATE_LIMIT", "many"),
        ("REQUEST_TIMEOUT_SECONDS", "soon"),
        ("REQUEST_TIMEOUT_SECONDS", "0"),
        ("CLOSED", "health"),
        ("API_KEYS", " , "),
        ("API_KEYS_FILE", ""),
        ("API_KEYS_FILE", "/nowhere/zq"),
        ("CORS_ORIGINS", "https://app.example/path"),
        ("TRUSTED_PROXIES", "10.0.0.1/8"),
    ],
)
def test_a_meaningless_setting_stops_the_start_and_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.of({name: value})


def test_the_document_tells_of_keys_and_limits_where_there_are_some() -> None:
    plain = openapi_document("1", Settings())
    guarded = openapi_document("1", Settings.of({"API_KEYS": KEY, "RATE_LIMIT": "3/minute"}))
    for path in ("/predict", "/alerts", "/predict-with-alerts"):
        extra = set(guarded["paths"][path]["post"]["responses"]) - set(plain["paths"][path]["post"]["responses"])
        assert extra == {"401", "429"}
        assert guarded["paths"][path]["post"]["security"]
    assert set(guarded["components"]["securitySchemes"]) == {"bearer", "key"}
    assert "securitySchemes" not in plain["components"]
