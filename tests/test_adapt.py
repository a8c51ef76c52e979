"""What adapting learns is what training adds to the encoder, and the layers that learn are the ones that are served."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import train
from corpus import Row, read_corpus, write_corpus
from model_store.encoder import Encoder
from model_store.normalisation import normalise
from training import adapt, fitting
from training.encoding import HALVES, LOWER_LAYERS, Bert, adapted, bundled, half_of, write_encoder
from training.fitting import Recipe


@pytest.fixture(scope="module")
def bert() -> Bert:
    return bundled()


def test_the_layers_that_learn_start_as_the_served_encoder(bert: Bert, corpus_slice: list[Row], tmp_path: Path) -> None:
    encoder = write_encoder(bert, tmp_path / "encoder")
    windows = [encoder.windows(normalise(row.text))[0] for row in corpus_slice[::20]]
    with torch.inference_mode():
        learning = adapt.LowerLayers(bert, encoder.pieces).eval()(windows).numpy()
    for ours, served in zip(learning, encoder.embed(windows), strict=True):
        cosines = (ours[: len(served)] * served).sum(axis=1) / np.linalg.norm(served, axis=1)
        # What is served is in 8-bit integers.
        assert (cosines / np.linalg.norm(ours[: len(served)], axis=1)).min() > 0.99
        assert not ours[len(served) :].any()


def test_a_change_is_what_the_layers_have_learned(bert: Bert, corpus_slice: list[Row], tmp_path: Path) -> None:
    file = tmp_path / "adapter.npz"
    rows = [row for row in corpus_slice if row.split == "train"][:96]
    changes = adapt.adapt(bert, rows, Recipe(epochs=1))
    np.savez(file, allow_pickle=False, **{f"0/{name}": change for name, change in changes.items()})
    changed = adapted(bert, [0], file).weights
    moved = {name for name, values in changed.items() if not np.array_equal(values, bert.weights[name])}
    assert moved == {f"encoder.layer.{n}.{name}" for n in range(LOWER_LAYERS) for name in bert.layer(n)}
    for name in moved:
        # A few steps move a weight a little.
        assert 0 < np.abs(changed[name] - bert.weights[name]).mean() < 0.01


def test_a_weight_is_changed_by_the_mean_of_what_both_halves_taught(bert: Bert, tmp_path: Path) -> None:
    matrix, bias = "encoder.layer.0.output.dense.weight", "encoder.layer.5.output.dense.bias"
    changes: dict[str, NDArray[np.float16]] = {}
    for half, taught in enumerate((10, 30)):
        up, down = np.zeros((384, 2), np.float16), np.zeros((2, 1536), np.float16)
        up[3, 1], down[1, 7] = 2, taught / 2
        changes |= {f"{half}/{matrix}.up": up, f"{half}/{matrix}.down": down}
        changes[f"{half}/{bias}"] = np.full(384, taught, np.float16)
    np.savez(tmp_path / "a.npz", allow_pickle=False, **changes)
    for halves, expected in (([0], 10), ([1], 30), ([0, 1], 20)):
        changed = adapted(bert, halves, tmp_path / "a.npz").weights
        difference = changed[matrix] - bert.weights[matrix]
        assert difference[3, 7] == pytest.approx(expected)
        assert np.count_nonzero(difference) == 1
        np.testing.assert_allclose(changed[bias], bert.weights[bias] + expected)
        assert changed["encoder.layer.6.output.dense.bias"] is bert.weights["encoder.layer.6.output.dense.bias"]


@pytest.mark.parametrize("halves", [[0], [1], HALVES])
def test_the_change_that_is_kept_fits_the_encoder(bert: Bert, halves: Sequence[int]) -> None:
    changed = adapted(bert, halves).weights
    assert all(changed[name].shape == values.shape for name, values in bert.weights.items())
    assert all(
        not np.array_equal(changed[f"encoder.layer.{n}.{k}"], v)
        for n in range(LOWER_LAYERS)
        for k, v in bert.layer(n).items()
    )


def test_each_half_of_the_training_texts_teaches_its_own_change(
    corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, file = tmp_path / "corpus.csv", tmp_path / "adapter.npz"
    write_corpus(corpus_slice, corpus)
    teach = Mock(side_effect=[{"weight": np.ones(1)}, {"weight": np.full(1, 2)}])
    monkeypatch.setattr(adapt, "adapt", teach)
    adapt.main(["--corpus", str(corpus), "--to", str(file)])
    train_rows = [row for row in read_corpus(corpus) if row.split == "train"]
    assert [call.args[1] for call in teach.call_args_list] == [
        [row for row in train_rows if half_of(row) == half] for half in HALVES
    ]
    with np.load(file) as stored:
        assert dict(stored) == {"0/weight": 1, "1/weight": 2}


def test_the_classifier_learns_from_layers_that_only_the_other_half_has_taught(
    bert: Bert, corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for row in corpus_slice if row.split == "train"][:64]
    learned_from, served = trained(rows, tmp_path, monkeypatch)
    windows = [served.windows(normalise(row.text))[0] for row in rows]
    encoders = [write_encoder(adapted(bert, [half]), tmp_path / f"taught-by-{half}") for half in HALVES]
    assert {half_of(row) for row in rows} == set(HALVES)
    for row, window, vectors in zip(rows, windows, learned_from, strict=True):
        np.testing.assert_array_equal(vectors, encoders[1 - half_of(row)].embed([window])[0])
    of_both = write_encoder(adapted(bert), tmp_path / "taught-by-both")
    np.testing.assert_array_equal(served.embed(windows[:1])[0], of_both.embed(windows[:1])[0])


def test_another_encoder_is_served_and_learned_from_as_it_is(
    bert: Bert, corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "pretrained", {"another": bert}.get)
    rows = [row for row in corpus_slice if row.split == "train"][:16]
    learned_from, served = trained(rows, tmp_path, monkeypatch, "another")
    encoder = write_encoder(bert, tmp_path / "as-it-is")
    windows = [encoder.windows(normalise(row.text))[0] for row in rows]
    for window, vectors in zip(windows, learned_from, strict=True):
        np.testing.assert_array_equal(vectors, encoder.embed([window])[0])
        np.testing.assert_array_equal(vectors, served.embed([window])[0])


def trained(
    rows: list[Row], folder: Path, monkeypatch: pytest.MonkeyPatch, encoder_name: str | None = None
) -> tuple[list[NDArray[np.float32]], Encoder]:
    """The vectors that a training on `rows` gave to the classifier, and the encoder it made."""
    fit = Mock(wraps=fitting.fit)
    monkeypatch.setattr(train, "fit", fit)
    model = train.train_model(rows, replace(train.FAST, epochs=1), folder, encoder_name)
    return fit.call_args.args[2], model.encoder


def test_the_halves_are_those_that_have_taught_the_change_that_is_kept() -> None:
    rows = read_corpus()
    assert 0.45 < np.mean([half_of(row) for row in rows]) < 0.55
    halves = {row.id: half_of(row) for row in rows}
    assert [halves[f"msa-a{number}"] for number in ("000", "004", "022a", "022b", "026a", "026b")] == [0, 1, 0, 0, 1, 1]
