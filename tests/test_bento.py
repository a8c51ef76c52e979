"""The built Bento stands alone: its own environment, no clone, the same answers."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import bentoml
import httpx

from corpus import Row
from local_server import ROOT
from tests.conftest import Server, serving


def test_a_bento_in_its_own_environment_answers_like_the_clone(
    server: Server, corpus_slice: list[Row], tmp_path: Path
) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "bentoml", "build", "--output", "tag"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    tag = next(line for line in built.stdout.splitlines() if line.startswith("__tag__:")).removeprefix("__tag__:")
    bento = Path(bentoml.bentos.get(tag).path)
    shipped = {str(path.relative_to(bento / "src")) for path in (bento / "src").rglob("*") if path.is_file()}
    assert {"service.py", "pyproject.toml", "LICENSE", "NOTICE", "alerts/rules.py"} <= shipped
    kept_home = (
        "corpus",
        "tests",
        "train.py",
        "evaluat",
        "model_card.py",
        "local_server.py",
        "training",
        "reports",
        ".venv",
    )
    assert not [name for name in shipped if name.startswith(kept_home) or "__pycache__" in name]

    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    requirements = str(bento / "env" / "python" / "requirements.txt")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True, cwd=tmp_path)

    # The clone is not on any path: the working folder is empty and the Bento brings its own code.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "PYTHONPATH" not in os.environ
    texts = [row.text for row in corpus_slice if row.split == "test"][:60]
    with serving(tag, tmp_path / "log", folder=elsewhere, python=python) as bento_server:
        answers = [
            [httpx.post(f"{url}/predict", json={"text": text}, timeout=60).json() for text in texts]
            for url in (server.url, bento_server.url)
        ]
        published = [httpx.get(f"{url}/docs.json").json() for url in (server.url, bento_server.url)]
    assert answers[0] == answers[1]
    assert published[0] == published[1]
