"""The figures are those of the definitions, worked out by hand."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from corpus import Row
from evaluation import alarm_shares, calibration_error, confusion, evaluate, figures, quadratic_weighted_kappa
from model_store.classifier import decide


def test_kappa_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    for texts in (2, 5, 50, 400):
        truth, predicted = random.integers(4, size=(2, texts))
        expected = cohen_kappa_score(truth, predicted, weights="quadratic", labels=[0, 1, 2, 3])
        assert quadratic_weighted_kappa(confusion(truth, predicted)) == pytest.approx(expected)
    assert quadratic_weighted_kappa(confusion(np.array([2, 2]), np.array([2, 2]))) == 1.0


def test_figures_by_hand() -> None:
    found = figures(np.array([0, 0, 1, 2, 3, 3]), np.array([0, 2, 1, 2, 2, 1]))
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert found["mae"] == pytest.approx((2 + 1 + 2) / 6)
    assert [found[f"recall_{level}"] for level in range(4)] == [0.5, 1.0, 1.0, 0.0]
    assert found["severe_seen"] == 0.5
    assert found["false_alarm"] == 0.5
    # F1 of levels 0..3: 2/3, 2/3, 1/2, 0.
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1 / 2 + 0) / 4)
    assert figures(np.array([1]), np.array([1]))["false_alarm"] is None


def test_intervals_are_those_of_resampled_texts() -> None:
    truth = np.array([0] * 100 + [3] * 400)
    predicted = np.array([2] * 20 + [0] * 80 + [3] * 400)
    low, high = figures(truth, predicted)["intervals"]["false_alarm"]
    # A share of 0.2 of 100 texts: standard error 0.04.
    assert low == pytest.approx(0.2 - 1.96 * 0.04, abs=0.015)
    assert high == pytest.approx(0.2 + 1.96 * 0.04, abs=0.015)
    assert figures(truth, truth)["intervals"]["severe_seen"] == [1.0, 1.0]


def test_alarms_are_shares_of_everyday_texts_with_their_intervals() -> None:
    found = alarm_shares(np.array([[2, 0]] * 20 + [[0, 1]] * 80))
    assert found["depression"]["value"] == 0.2
    low, high = found["depression"]["interval"]
    assert low == pytest.approx(0.2 - 1.96 * 0.04, abs=0.015)
    assert high == pytest.approx(0.2 + 1.96 * 0.04, abs=0.015)
    assert found["anxiety"] == {"value": 0.0, "interval": [0.0, 0.0]}


def test_calibration_error_by_hand() -> None:
    sure, unsure = [0.95, 0.05, 0, 0], [0, 0.55, 0.45, 0]
    probabilities = np.array([sure, sure, unsure, unsure], dtype=np.float32)
    # Two at 0.95 of which one is right, two at 0.55 both right.
    assert calibration_error(np.array([0, 1, 1, 1]), probabilities) == pytest.approx((0.45 + 0.45) / 2)


def test_a_clear_level_is_taken_and_the_expected_level_decides_the_rest() -> None:
    clear = [[0.51, 0, 0, 0.49], [0, 0.1, 0.3, 0.6]]
    unclear = [
        [0.45, 0.05, 0.05, 0.45],
        [0, 0.5, 0.5, 0],
        [0.5, 0.5, 0, 0],
        [0.49, 0.46, 0.05, 0],
        [0.49, 0.3, 0.1, 0.11],
    ]
    assert decide(np.array(clear + unclear, dtype=np.float32)).tolist() == [0, 3, 2, 2, 1, 1, 1]


def test_subsets_and_pairs() -> None:
    rows = [
        Row("egy-1a", "egy", "contrast", "x", 0, 0, "test"),
        Row("egy-1b", "egy", "contrast", "y", 3, 0, "test"),
        Row("lev-2a", "lev", "contrast", "z", 1, 2, "test"),
        Row("lev-2b", "lev", "contrast", "w", 1, 1, "test"),
        Row("lev-3", "lev", "plain", "v", 2, 2, "test"),
        Row("glf-4a", "glf", "contrast", "u", 0, 1, "test"),
        Row("glf-4b", "glf", "contrast", "t", 2, 1, "test"),
        # Its other half is not there.
        Row("irq-5a", "irq", "plain", "s", 0, 0, "test"),
    ]
    predicted = np.array([[0, 0], [3, 0], [1, 1], [1, 1], [2, 2], [0, 3], [2, 1], [0, 0]])
    report = evaluate(rows, predicted)
    assert report["contrast_pairs"]["pairs"] == 3
    assert report["contrast_pairs"]["right"] == pytest.approx(1 / 3)
    # Depression differs in the first and the last pair and is right in both, whatever their anxiety.
    for target, pairs, right in (("depression", 2, 1.0), ("anxiety", 1, 0.0)):
        assert report["contrast_pairs"][target]["pairs"] == pairs
        assert report["contrast_pairs"][target]["right"] == right
    assert report["depression"]["hard"]["texts"] == 6
    assert report["anxiety"]["lev"]["accuracy"] == pytest.approx(2 / 3)
    assert "msa" not in report["anxiety"]
