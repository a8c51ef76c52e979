"""What goes into the model store comes back the same, and nothing else comes back at all."""

from pathlib import Path

import bentoml
import numpy as np
import pytest
import skops.io
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from corpus import Row
from model_store import TARGETS
from model_store.classifier import CLASSIFIER_FILE, SeverityClassifier, UntrustedModelError
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, KNOWN_TEXTS, code_version, has_model_of, load_models


def fitted_pipelines() -> dict[str, object]:
    points, levels = np.eye(8, dtype=np.float32), np.array([0, 1, 2, 3] * 2)
    return {target: make_pipeline(StandardScaler(), SVC()).fit(points, levels) for target in TARGETS}


def test_a_training_leaves_two_models_with_their_facts(training: Path) -> None:
    encoder, classifier = bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG)
    facts = classifier.info.metadata
    assert facts["encoder_tag"] == str(encoder.tag)
    assert encoder.info.metadata["encoder"] == facts["embedding_model"] == "intfloat/multilingual-e5-small"
    assert {"metrics", "corpus_sha256", "packages", "licences", "hyper_parameters", "code_version"} <= set(facts)
    assert has_model_of(code_version())
    assert not has_model_of("0.0.0+another")
    assert {path.name for path in training.iterdir()} == {"evaluation.md", "evaluation.json", "confusion.png"}


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
    import train

    rows = [row for row in corpus_slice if row.split == "train"]
    texts = [row.text for row in corpus_slice]
    first, second = (train.train_model(rows) for _ in range(2))
    assert first is not second
    assert (first.levels(texts) == second.levels(texts)).all()


def test_saved_and_loaded_it_predicts_the_same(tmp_path: Path) -> None:
    classifier = SeverityClassifier(fitted_pipelines())
    classifier.save(tmp_path)
    points = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    assert (SeverityClassifier.load(tmp_path).predict(points) == classifier.predict(points)).all()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=CLASSIFIER_FILE):
        SeverityClassifier.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        [SVC()],
        {"depression": SVC(), "anxiety": SVC()},
        {**fitted_pipelines(), "extra": SVC()},
        {target: make_pipeline(FunctionTransformer(print), SVC()) for target in TARGETS},
    ],
)
def test_anything_but_the_two_pipelines_is_refused(tmp_path: Path, content: object) -> None:
    skops.io.dump(content, tmp_path / CLASSIFIER_FILE)
    with pytest.raises(UntrustedModelError):
        SeverityClassifier.load(tmp_path)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    import pickle

    (tmp_path / CLASSIFIER_FILE).write_bytes(pickle.dumps(fitted_pipelines()))
    with pytest.raises(UntrustedModelError):
        SeverityClassifier.load(tmp_path)
