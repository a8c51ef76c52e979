"""The published document tells the truth: live answers of every status fit it, and fuzzing by it finds nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from starlette.responses import PlainTextResponse

from api.openapi import openapi_document
from api.settings import Settings
from local_server import ROOT
from tests.api import test_middleware as without_server
from tests.conftest import Server

CALM = "اليوم طبخنا الرز"
POSTS = ("/predict", "/alerts", "/predict-with-alerts")
BODIES: dict[str, dict[str, Any]] = {
    "/predict": {"text": CALM},
    "/alerts": {"history": [{"depression_score": 0, "anxiety_score": 0}, {"depression_score": 2, "anxiety_score": 3}]},
    "/predict-with-alerts": {"text": CALM, "history": [{"depression_score": 3, "anxiety_score": 3}] * 2},
}


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> dict[str, Any]:
    published: dict[str, Any] = client.get("/docs.json").json()
    return published


def assert_documented(document: dict[str, Any], path: str, response: httpx.Response) -> None:
    method = "get" if path == "/health" else "post"
    described = document["paths"][path][method]["responses"][str(response.status_code)]
    schema = described["content"][response.headers["content-type"]]["schema"]
    jsonschema_rs.validate({**schema, "components": document["components"]}, response.json())
    for header in described.get("headers", {}):
        assert header in response.headers


def test_live_answers_fit(document: dict[str, Any], client: httpx.Client) -> None:
    assert_documented(document, "/health", client.get("/health"))
    for path in POSTS:
        json_type = {"content-type": "application/json"}
        answers = {
            200: client.post(path, json=BODIES[path]),
            400: client.post(path, json={}),
            413: client.post(path, content=b" " * 1_100_000, headers=json_type),
            415: client.post(path, content=b"{}", headers={"content-type": "text/plain"}),
        }
        for status, response in answers.items():
            assert response.status_code == status
            assert_documented(document, path, response)


@pytest.mark.parametrize("path", POSTS)
def test_answers_of_a_failing_service_fit(document: dict[str, Any], path: str) -> None:
    async def unavailable(_: Any) -> Any:
        return PlainTextResponse("busy", 503)

    failing = {500: without_server.raises, 503: unavailable, 504: without_server.hangs}
    answers = {status: without_server.post(endpoint, BODIES[path], path=path) for status, endpoint in failing.items()}
    for status, response in answers.items():
        assert response.status_code == status
        assert_documented(document, path, response)
    documented = set(document["paths"][path]["post"]["responses"])
    assert documented == {"200", "400", "413", "415", *map(str, failing)}


def test_requests_of_the_document_are_answered_as_it_says(document: dict[str, Any], client: httpx.Client) -> None:
    for path in POSTS:
        example = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
        response = client.post(path, json=example)
        assert response.status_code == 200
        assert_documented(document, path, response)


def test_it_says_what_the_service_is_not(client: httpx.Client) -> None:
    assert "not a medical device" in client.get("/docs.json").json()["info"]["description"]
    page = client.get("/").text
    assert "docs.json" in page
    assert not re.search("https?://", page)  # the page asks nobody but the service


def test_version_is_the_one_of_the_project(client: httpx.Client) -> None:
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert openapi_document(version, Settings()) == client.get("/docs.json").json()
    assert client.get("/health").json()["version"] == version


def test_schemathesis_finds_nothing(server: Server, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/docs.json"]
    command += ["--checks", "all", "--max-examples", "700", "--seed", "7", "--no-color"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.api.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-5000:]
    generated = re.search(r"(\d+) generated", run.stdout)
    assert generated
    assert int(generated[1]) >= 2000
