"""The README's commands answer as it says."""

import json
import re
import subprocess

import pytest

from local_server import ROOT
from tests.conftest import Server

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sh\n(curl .*?)```\n\n```json\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(("command", "answer"), EXAMPLES, ids=["health", "predict", "alerts", "predict-with-alerts"])
def test_every_curl_gets_its_answer(server: Server, command: str, answer: str) -> None:
    run = subprocess.run(
        ["bash", "-c", command.replace("http://127.0.0.1:3000", server.url)], capture_output=True, check=True
    )
    assert json.loads(run.stdout) == json.loads(answer)


def test_the_two_commands_stand_near_the_top() -> None:
    top = README.splitlines()[:25]
    assert any(line.startswith("make serve") for line in top)
    assert any(line.startswith("make test") for line in top)
    assert any("not a medical device" in line for line in top)


def test_every_setting_is_in_the_table_and_read_somewhere() -> None:
    table = README[README.index("## Configuration") : README.index("## As a container")]
    named = set(re.findall(r"^\| `([A-Z_]+)`", table, re.MULTILINE))
    settings = (ROOT / "api" / "settings.py").read_text(encoding="utf-8")
    read = set(re.findall(r"\"([A-Z][A-Z_]+)\"", settings))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert read <= named
    assert named == read | {"BENTOML_HOME"} | {name for name in named if f"{name} ?=" in makefile}
