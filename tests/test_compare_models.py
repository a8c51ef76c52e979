"""The losses and probabilities of the models that are compared are what their papers say; by hand."""

import pytest
import torch

from benchmarks.compare_models import HEADER, Outcome, levels_of_steps, line
from corpus import Row
from evaluation import evaluate


def test_levels_of_steps_by_hand() -> None:
    above = torch.tensor([[0.9, 0.5, 0.2], [1.0, 1.0, 1.0]])
    assert levels_of_steps(above)[0].exp().tolist() == pytest.approx([0.1, 0.4, 0.3, 0.2])
    assert levels_of_steps(above)[1].exp().tolist() == pytest.approx([0, 0, 0, 1], abs=1e-5)


def test_a_line_has_the_cells_of_the_header() -> None:
    rows = [Row("egy-1a", "egy", "contrast", "x", 0, 3, "train"), Row("egy-1b", "egy", "contrast", "y", 3, 0, "train")]
    report = evaluate(rows, torch.tensor([[0, 3], [0, 0]]).numpy())
    cells = line(Outcome("a model", report, 12.4, 3_400_000, 99.6)).split(" | ")
    assert len(cells) == len(HEADER.splitlines()[1].split(" | "))
    assert cells[-4:] == ["0 %", "12", "3", "100 |"]
