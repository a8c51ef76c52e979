"""The trained model is as good as it has to be, and no way to spell moves its answers."""

import json
from pathlib import Path
from typing import Any

import bentoml
import pytest

import train
from corpus import VARIETIES, read_corpus
from corpus.spelling import RESPELLINGS
from model_store import TARGETS
from model_store.severity import SeverityModel
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, load_models


@pytest.fixture(scope="module")
def report(training: Path) -> dict[str, Any]:
    """The figures of the real training's own model."""
    reports: dict[str, dict[str, Any]] = json.loads((training / "evaluation.json").read_text(encoding="utf-8"))
    return next(iter(reports.values()))


@pytest.mark.parametrize("target", TARGETS)
def test_the_model_reaches_what_is_wanted_of_it(report: dict[str, Any], target: str) -> None:
    of_target = report[target]
    assert of_target["all"]["qwk"] >= 0.88
    assert of_target["hard"]["qwk"] >= 0.80
    assert min(of_target[variety]["qwk"] for variety in VARIETIES) >= 0.82
    assert of_target["all"]["severe_seen"] >= 0.97
    assert report["alarms"][target]["value"] <= 0.04


@pytest.mark.parametrize("way", RESPELLINGS)
def test_spelling_does_not_move_a_score(report: dict[str, Any], way: str) -> None:
    texts = [row.text for row in read_corpus() if row.split == "test"]
    respelled = sum(RESPELLINGS[way](text) != text for text in texts)
    assert respelled > (20 if way == "other digits" else 100)
    assert report["same_when_respelled"][way] >= 0.99


def test_a_way_to_spell_that_moves_scores_is_seen(training: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model: SeverityModel = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    rows = [row for row in read_corpus() if row.split == "test"][:40]
    monkeypatch.setattr(train, "RESPELLINGS", {"backwards": lambda text: text[::-1], "as it is": str})
    levels = train.assess(model, rows, "as they are").levels
    shares = train.same_when_respelled(model, rows, levels)
    assert shares["backwards"] < 0.8
    assert shares["as it is"] == 1
