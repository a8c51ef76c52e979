"""The figures are those of the definitions, worked out by hand."""

import numpy as np
import pytest

from corpus import Row
from evaluation import evaluate, figures, quadratic_weighted_kappa


def test_quadratic_weighted_kappa_by_hand() -> None:
    # Observed disagreement (1 + 4) / 9; expected from the margins, weights (i - j)^2: 25 / 9 over 9 / ... = 24 / 9.
    truth, predicted = np.array([0, 1, 3]), np.array([0, 2, 1])
    observed = ((truth - predicted) ** 2).mean()
    expected = np.mean([(t - p) ** 2 for t in truth for p in predicted])
    assert quadratic_weighted_kappa(truth, predicted) == pytest.approx(1 - observed / expected)
    assert quadratic_weighted_kappa(np.array([2, 2]), np.array([2, 2])) == 1.0


def test_figures_by_hand() -> None:
    found = figures(np.array([0, 0, 1, 2, 3, 3]), np.array([0, 2, 1, 2, 2, 1]))
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert found["mae"] == pytest.approx((2 + 1 + 2) / 6)
    assert found["recall"] == [0.5, 1.0, 1.0, 0.0]
    assert found["severe_seen"] == 0.5
    assert found["false_alarm"] == 0.5
    # F1 of levels 0..3: 2/3, 2/3, 1/2, 0.
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1 / 2 + 0) / 4)


def test_subsets_and_pairs() -> None:
    rows = [
        Row("egy-1a", "egy", "contrast", "x", 0, 0, "test"),
        Row("egy-1b", "egy", "contrast", "y", 3, 0, "test"),
        Row("lev-2a", "lev", "contrast", "z", 1, 2, "test"),
        Row("lev-2b", "lev", "contrast", "w", 1, 1, "test"),
        Row("lev-3", "lev", "plain", "v", 2, 2, "test"),
    ]
    predicted = np.array([[0, 0], [3, 0], [1, 1], [1, 1], [2, 2]])
    report = evaluate(rows, predicted)
    assert report["contrast_pairs_right"] == 0.5
    assert report["depression"]["hard"]["texts"] == 4
    assert report["anxiety"]["lev"]["accuracy"] == pytest.approx(2 / 3)
    assert "msa" not in report["anxiety"]
