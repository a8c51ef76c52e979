"""What goes into the model store comes back the same, and nothing else comes back at all."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Event

import bentoml
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import train
from corpus import Row, write_corpus
from model_card import CARD_FILE, PICTURES
from model_store.classifier import GRAPH_FILE, SUBWORDS_FILE, SeverityClassifier
from model_store.encoder import Window
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, KNOWN_TEXTS, code_version, has_model_of, load_models
from training.fitting import SEED, Recipe, Training, step_losses
from training.network import Dropout, SeverityNetwork, Shape, collate, padded, write_classifier

SHAPE = Shape(dimensions=32, heads=2, inner=64, buckets=50, subword_dimensions=4)


def write_small_classifier(folder: Path, learns_words: bool = True) -> list[SeverityNetwork]:
    torch.manual_seed(0)
    members = [SeverityNetwork(replace(SHAPE, learns_words=learns_words)) for _ in range(2)]
    write_classifier(members, folder)
    return members


def test_a_training_leaves_two_models_with_their_facts(training: Path) -> None:
    encoder, classifier = bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG)
    facts = classifier.info.metadata
    assert facts["encoder_tag"] == str(encoder.tag)
    assert encoder.info.metadata["encoder"] == facts["embedding_model"] == "intfloat/multilingual-e5-small"
    assert {"metrics", "corpus_sha256", "packages", "licences", "hyper_parameters", "code_version"} <= set(facts)
    assert has_model_of(code_version())
    assert not has_model_of("0.0.0+another")
    assert {path.name for path in training.iterdir()} == {CARD_FILE, *PICTURES, "evaluation.json"}
    assert (Path(classifier.path) / CARD_FILE).read_bytes() == (training / CARD_FILE).read_bytes()


def test_stored_models_answer_as_right_after_training(training: Path) -> None:
    stored = bentoml.models.get(CLASSIFIER_TAG)
    model = load_models(bentoml.models.get(ENCODER_TAG), stored)
    answers = [[severity.depression, severity.anxiety] for severity in model.score(KNOWN_TEXTS)]
    assert answers == stored.info.metadata["known_answers"]
    assert model.score([]) == []


def test_a_classifier_of_another_encoder_is_refused(training: Path) -> None:
    stored = bentoml.models.get(CLASSIFIER_TAG)
    with pytest.raises(ValueError, match="was trained on severity-encoder"):
        load_models(stored, stored)


def test_a_target_with_one_level_is_refused_before_training(corpus_slice: list[Row], tmp_path: Path) -> None:
    write_corpus([replace(row, anxiety=0) for row in corpus_slice], tmp_path / "own.csv")
    with pytest.raises(SystemExit, match="the same level of anxiety: nothing to learn"):
        train.main(["--corpus", str(tmp_path / "own.csv"), "--reports", str(tmp_path / "reports")])


def test_two_trainings_give_the_same_predictions(corpus_slice: list[Row], tmp_path: Path) -> None:
    rows = [row for row in corpus_slice if row.split == "train"]
    texts = [row.text for row in corpus_slice]
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first, second = (train.train_model(rows, Recipe(epochs=1), folder) for folder in folders)
    assert (first.assess(texts).probabilities == second.assess(texts).probabilities).all()


@pytest.mark.parametrize("failing", [SEED, SEED + 1])
def test_an_error_in_one_network_stops_the_other(
    corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    losses, steps, epochs, both_learn = Training.losses, Counter[int](), 2000, Event()

    def counted(training: Training, rows: NDArray[np.int64]) -> torch.Tensor:
        steps[training.seed] += 1
        if training.seed == failing:
            both_learn.wait(60)
            raise RuntimeError("out of memory")
        both_learn.set()
        return losses(training, rows)

    monkeypatch.setattr(Training, "losses", counted)
    with pytest.raises(RuntimeError, match="out of memory"):
        train.train_model(corpus_slice[:32], replace(train.FAST, members=2, epochs=epochs), tmp_path)
    (other,) = {SEED, SEED + 1} - {failing}
    assert 0 < steps[other] < epochs


def test_a_review_is_of_the_texts_learned_worst(
    corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, losses, seen = corpus_slice[:100], Training.losses, list[tuple[int, float]]()

    def noted(training: Training, rows: NDArray[np.int64]) -> torch.Tensor:
        of_each = losses(training, rows)
        seen.extend(zip(rows.tolist(), of_each.tolist(), strict=True))
        return of_each

    monkeypatch.setattr(Training, "losses", noted)
    recipe = replace(train.FAST, epochs=1, reviews=1, reviewed=0.25, batch_texts=16)
    train.train_model(texts, recipe, tmp_path)
    assert sorted(row for row, _ in seen[:100]) == list(range(100))
    worst = sorted(seen[:100], key=lambda row_and_loss: row_and_loss[1])[75:]
    assert sorted(row for row, _ in seen[100:]) == sorted(row for row, _ in worst)


def test_the_fast_recipe_makes_another_model(corpus_slice: list[Row], tmp_path: Path) -> None:
    rows = [row for row in corpus_slice if row.split == "train"]
    model = train.train_model(rows, train.FAST, tmp_path)
    assert model.classifier.name == "attention-linear"
    assert model.assess(["كلام"]).levels.shape == (1, 2)


def test_a_step_is_from_each_level_to_those_above_it() -> None:
    sure = 20.0
    losses = step_losses(torch.tensor([[sure, sure, -sure], [sure, -sure, -sure]]), torch.tensor([2, 3]))
    assert losses.round().tolist() == [[0, 0, 0], [0, sure, sure]]
    smoothed = step_losses(torch.tensor([[sure, 0.0, -sure]]), torch.tensor([1]), smoothing=0.1)
    assert smoothed[0].tolist() == pytest.approx([0.05 * sure, math.log(2), 0.05 * sure], rel=1e-3)


def test_the_steps_between_levels_are_learned_too(corpus_slice: list[Row], tmp_path: Path) -> None:
    texts, learned = [row.text for row in corpus_slice[:20]], []
    for weight in (0.0, 0.5):
        folder = tmp_path / str(weight)
        folder.mkdir()
        model = train.train_model(corpus_slice[:64], replace(train.FAST, epochs=1, step_weight=weight), folder)
        learned.append(model.assess(texts).probabilities)
    assert abs(learned[0] - learned[1]).max() > 1e-3


def test_training_ends_by_raising_the_odds_of_levels(corpus_slice: list[Row], tmp_path: Path) -> None:
    rows = [row for row in corpus_slice if row.split == "train"]
    factors = (np.ones((2, 4)), np.array([[2.0, 1.0, 1.0, 3.0], [4.0, 1.0, 1.0, 1.0]]))
    scaled = []
    for number, odds in enumerate(factors):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = train.train_model(rows, replace(train.FAST, epochs=1, odds=odds.tolist()), folder)
        scaled.append(model.assess([row.text for row in rows[:20]]).probabilities)
    expected = scaled[0] * factors[1]
    np.testing.assert_allclose(scaled[1], expected / expected.sum(axis=-1, keepdims=True), rtol=1e-3)


def test_the_most_severe_window_of_a_long_text_counts(training: Path) -> None:
    model = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    calm, severe = "اليوم طبخنا الرز وتفرجنا على المباراة مع الجيران. ", "لم أعد أريد أن أعيش، أتمنى الموت. "
    alone = model.assess([severe]).levels[0]
    assert alone[0] == 3
    assert model.assess([calm * 60])[0].tolist() == [[0, 0]]
    assert model.assess([calm * 60 + severe * 30 + calm * 60]).levels[0, 0] == 3


def test_dropping_spares_no_place_and_keeps_the_mean() -> None:
    ones = torch.ones(4000, 24)
    values = Dropout(0.3, torch.Generator().manual_seed(0))(ones)
    share = (values == 0).float().mean(dim=0)
    assert share.numpy() == pytest.approx(np.full(24, 0.3), abs=0.03)
    assert values.mean().item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("learns_words", [True, False])
def test_the_graph_computes_what_was_trained(tmp_path: Path, learns_words: bool) -> None:
    members = write_small_classifier(tmp_path, learns_words)
    classifier = SeverityClassifier.load(tmp_path)
    windows = [Window([0] * n, [f"كلمة{n}", "<s>", *"أبتثجح"][:n], list(range(n))) for n in (2, 7, 3)]
    vectors = [np.random.default_rng(n).normal(size=(n, SHAPE.dimensions)).astype(np.float32) for n in (2, 7, 3)]
    found = classifier.probabilities(windows, vectors)
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-6)
    with torch.inference_mode():
        batch = collate(windows, padded(vectors), SHAPE.buckets)
        logits = torch.stack([member(member.pool(batch)) for member in members])
    expected = logits.log_softmax(dim=-1).mean(dim=0).softmax(dim=-1).numpy()
    # The linear model has no 8-bit matrices.
    np.testing.assert_allclose(found, expected, atol=0.01 if learns_words else 1e-6)


@pytest.mark.parametrize("name", [GRAPH_FILE, SUBWORDS_FILE])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    write_small_classifier(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        SeverityClassifier.load(tmp_path)


@pytest.mark.parametrize("name", [GRAPH_FILE, SUBWORDS_FILE])
@pytest.mark.parametrize("content", [b"", b"cos\nsystem\n(S'true'\ntR."])
def test_anything_but_a_classifier_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    write_small_classifier(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="train again"):
        SeverityClassifier.load(tmp_path)
