"""What goes into the model store comes back the same, and nothing else comes back at all."""

import pickle
from pathlib import Path

import bentoml
import numpy as np
import pytest
import torch

import train
from corpus import Row
from model_card import CARD_FILE, PICTURES
from model_store.classifier import SHAPE_FILE, WEIGHTS_FILE, SeverityClassifier, SeverityNetwork, Shape
from model_store.encoder import Window, as_stored
from model_store.fitting import Recipe
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, KNOWN_TEXTS, code_version, has_model_of, load_models


def small_classifier(learns_words: bool = True) -> SeverityClassifier:
    torch.manual_seed(0)
    shape = Shape(dimensions=8, heads=2, inner=16, buckets=50, subword_dimensions=4, learns_words=learns_words)
    return SeverityClassifier(shape, [as_stored(SeverityNetwork(shape)) for _ in range(shape.members)])


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


def test_two_trainings_give_the_same_predictions(corpus_slice: list[Row]) -> None:
    rows = [row for row in corpus_slice if row.split == "train"]
    texts = [row.text for row in corpus_slice]
    first, second = (train.train_model(rows, Recipe(epochs=1)) for _ in range(2))
    assert (first.assess(texts).probabilities == second.assess(texts).probabilities).all()


def test_the_fast_recipe_makes_another_model(corpus_slice: list[Row]) -> None:
    rows = [row for row in corpus_slice if row.split == "train"]
    model = train.train_model(rows, train.FAST)
    assert model.classifier.name == "attention-linear"
    assert model.assess(["كلام"]).levels.shape == (1, 2)


def test_the_most_severe_window_of_a_long_text_counts(training: Path) -> None:
    model = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    calm, severe = "اليوم طبخنا الرز وتفرجنا على المباراة مع الجيران. ", "لم أعد أريد أن أعيش، أتمنى الموت. "
    alone = model.assess([severe]).levels[0]
    assert alone[0] == 3
    assert model.assess([calm * 60])[0].tolist() == [[0, 0]]
    assert model.assess([calm * 60 + severe * 30 + calm * 60]).levels[0, 0] == 3


@pytest.mark.parametrize("learns_words", [True, False])
def test_saved_and_loaded_it_predicts_the_same(tmp_path: Path, learns_words: bool) -> None:
    classifier = small_classifier(learns_words)
    classifier.save(tmp_path)
    windows = [Window([0] * n, [f"كلمة{n}"] * n, list(range(n))) for n in (2, 7, 3)]
    vectors = [np.random.default_rng(n).normal(size=(n, 8)).astype(np.float32) for n in (2, 7, 3)]
    found = SeverityClassifier.load(tmp_path).probabilities(windows, vectors)
    assert (found == classifier.probabilities(windows, vectors)).all()
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize("name", [WEIGHTS_FILE, SHAPE_FILE])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    small_classifier().save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        SeverityClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (WEIGHTS_FILE, pickle.dumps({"weights": 1})),
        (WEIGHTS_FILE, b""),
        (SHAPE_FILE, b"{}"),
        (SHAPE_FILE, b'{"dimensions": 16, "heads": 2, "inner": 16, "buckets": 50, "subword_dimensions": 4}'),
    ],
)
def test_anything_but_weights_of_the_shape_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    small_classifier().save(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="train again"):
        SeverityClassifier.load(tmp_path)
