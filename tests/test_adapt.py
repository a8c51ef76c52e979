"""What adapting learns is what training adds to the encoder, and the layers that learn are the ones that are served."""

from pathlib import Path

import numpy as np
import pytest
import torch

import train
from corpus import Row, read_corpus
from model_store.encoder import Encoder
from model_store.normalisation import normalise
from training import adapt
from training.encoding import LOWER_LAYERS, Bert, adapted, bundled, write_encoder
from training.fitting import Recipe


@pytest.fixture(scope="module")
def bert() -> Bert:
    return bundled()


def test_the_layers_that_learn_start_as_the_served_encoder(bert: Bert, corpus_slice: list[Row], tmp_path: Path) -> None:
    write_encoder(bert, tmp_path)
    encoder = Encoder.load(tmp_path, "e5")
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
    np.savez(file, allow_pickle=False, **adapt.adapt(bert, rows, Recipe(epochs=1)))
    changed = adapted(bert, file).weights
    moved = {name for name, values in changed.items() if not np.array_equal(values, bert.weights[name])}
    assert moved == {f"encoder.layer.{n}.{name}" for n in range(LOWER_LAYERS) for name in bert.layer(n)}
    for name in moved:
        # A few steps move a weight a little.
        assert 0 < np.abs(changed[name] - bert.weights[name]).mean() < 0.01


def test_a_matrix_is_changed_by_the_product_of_its_factors(bert: Bert, tmp_path: Path) -> None:
    matrix, bias = "encoder.layer.0.output.dense.weight", "encoder.layer.5.output.dense.bias"
    up, down = np.zeros((384, 2), np.float16), np.zeros((2, 1536), np.float16)
    up[3, 1], down[1, 7] = 2, 5
    changes = {f"{matrix}.up": up, f"{matrix}.down": down, bias: np.full(384, 0.5, np.float16)}
    np.savez(tmp_path / "a.npz", allow_pickle=False, **changes)
    changed = adapted(bert, tmp_path / "a.npz").weights
    difference = changed[matrix] - bert.weights[matrix]
    assert difference[3, 7] == pytest.approx(10)
    assert np.count_nonzero(difference) == 1
    np.testing.assert_allclose(changed[bias], bert.weights[bias] + 0.5)
    assert changed["encoder.layer.6.output.dense.bias"] is bert.weights["encoder.layer.6.output.dense.bias"]


def test_the_change_that_is_kept_fits_the_encoder(bert: Bert) -> None:
    changed = adapted(bert).weights
    assert all(changed[name].shape == values.shape for name, values in bert.weights.items())
    assert all(
        not np.array_equal(changed[f"encoder.layer.{n}.{k}"], v)
        for n in range(LOWER_LAYERS)
        for k, v in bert.layer(n).items()
    )


def test_training_takes_the_adapted_encoder(bert: Bert, corpus_slice: list[Row], tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    write_encoder(adapted(bert), tmp_path / "plain")
    rows = [row for row in corpus_slice if row.split == "train"][:64]
    model = train.train_model(rows, train.FAST, tmp_path)
    window = model.encoder.windows(normalise(rows[0].text))[:1]
    trained, expected = model.encoder.embed(window)[0], Encoder.load(tmp_path / "plain", "e5").embed(window)[0]
    np.testing.assert_array_equal(trained, expected)


def test_half_of_the_groups_and_no_half_of_a_pair() -> None:
    rows = [row for row in read_corpus() if row.split == "train"][-1500:]
    taught = adapt.half(rows)
    assert 0.4 < len(taught) / len(rows) < 0.6
    ids = {row.id for row in taught}
    left = {row.pair for row in rows if row.id not in ids}
    assert {row.pair for row in taught} & left == {None}
