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
from training.encoding import (
    ADAPTER_FILE,
    FOLDS,
    LOWER_LAYERS,
    Bert,
    Changes,
    adapted,
    bundled,
    fold_of,
    read_changes,
    with_mean_of,
    write_encoder,
)
from training.fitting import Recipe


@pytest.fixture(scope="module")
def bert() -> Bert:
    return bundled()


@pytest.mark.parametrize("before", [False, True], ids=["at first", "taught before"])
def test_the_layers_that_learn_start_as_the_served_encoder(
    bert: Bert, before: bool, corpus_slice: list[Row], tmp_path: Path
) -> None:
    taught = read_changes(ADAPTER_FILE)[0] if before else {}
    start = with_mean_of(bert, [taught])
    encoder = write_encoder(start, tmp_path / "encoder")
    windows = [encoder.windows(normalise(row.text))[0] for row in corpus_slice[::20]]
    lower = adapt.LowerLayers(start, encoder.pieces, taught)
    with torch.inference_mode():
        learning = lower(windows).numpy()
    for ours, served in zip(learning, encoder.embed(windows), strict=True):
        cosines = (ours[: len(served)] * served).sum(axis=1) / np.linalg.norm(served, axis=1)
        # What is served is in 8-bit integers.
        assert (cosines / np.linalg.norm(ours[: len(served)], axis=1)).min() > 0.99
        assert not ours[len(served) :].any()
    for name, part in lower.layers.named_modules():
        if isinstance(part, adapt.LowRank):
            weight = f"encoder.layer.{name}.weight"
            # What was taught before is in what learns, not in what stays.
            np.testing.assert_allclose(part.kept.weight.detach(), bert.weights[weight], atol=1e-6)
            whole = part.kept.weight + part.up @ part.down
            np.testing.assert_allclose(whole.detach(), start.weights[weight], atol=1e-6)


def test_a_change_is_what_the_layers_have_learned(
    bert: Bert, corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, file = [row for row in corpus_slice if row.split == "train"][:96], tmp_path / "adapter.npz"
    lower_layers, learned = adapt.LowerLayers, []

    def remembered(bert: Bert, pieces: NDArray[np.float16], taught: Changes) -> adapt.LowerLayers:
        learned.append(lower_layers(bert, pieces, taught))
        return learned[0]

    monkeypatch.setattr(adapt, "LowerLayers", remembered)
    changes = adapt.adapt(bert, rows, Recipe(epochs=1), {})
    np.savez(file, allow_pickle=False, **{f"0/{name}": change for name, change in changes.items()})
    changed = adapted(bert, [0], file)
    moved = {name for name, values in changed.weights.items() if not np.array_equal(values, bert.weights[name])}
    assert moved == {f"encoder.layer.{n}.{name}" for n in range(LOWER_LAYERS + 1) for name in bert.layer(n)}
    for name in moved:
        # A few steps move a weight a little.
        assert 0 < np.abs(changed.weights[name] - bert.weights[name]).mean() < 0.01
    for number, layer in enumerate(learned[0].layers):
        for name, values in layer.state_dict().items():
            np.testing.assert_allclose(changed.layer(number)[name], values.numpy(), atol=2e-4)


def test_what_was_taught_before_stays_where_nothing_new_is_learned(
    bert: Bert, corpus_slice: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapt, "LOWER_RATE", 0)
    taught = read_changes(ADAPTER_FILE)[0]
    changes = adapt.adapt(bert, corpus_slice[:32], Recipe(epochs=1, reviews=0, rate_layer=0), taught)
    kept = {name: change.astype(np.float32) for name, change in changes.items()}
    expected, found = (with_mean_of(bert, [changes]).weights for changes in (taught, kept))
    assert kept.keys() == taught.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-3)


def test_a_change_is_kept_as_its_nearest_of_low_rank() -> None:
    random = np.random.default_rng(1)
    left, right = (random.standard_normal(shape).astype(np.float32) for shape in ((40, adapt.RANK), (adapt.RANK, 30)))
    kept = adapt._change("dense.weight", left @ right)
    np.testing.assert_allclose(
        kept["dense.weight.up"].astype(np.float32) @ kept["dense.weight.down"], left @ right, atol=0.02
    )
    kept = adapt._change("dense.weight", np.diag(np.arange(40, dtype=np.float32)))
    largest = np.diag([number if number >= 40 - adapt.RANK else 0 for number in range(40)])
    np.testing.assert_allclose(
        kept["dense.weight.up"].astype(np.float32) @ kept["dense.weight.down"], largest, atol=0.05
    )


def test_a_weight_is_changed_by_the_mean_of_what_was_taught(bert: Bert, tmp_path: Path) -> None:
    matrix, bias = "encoder.layer.0.output.dense.weight", "encoder.layer.5.output.dense.bias"
    changes: dict[str, NDArray[np.float16]] = {}
    for fold, taught in enumerate((10, 30)):
        up, down = np.zeros((384, 2), np.float16), np.zeros((2, 1536), np.float16)
        up[3, 1], down[1, 7] = 2, taught / 2
        changes |= {f"{fold}/{matrix}.up": up, f"{fold}/{matrix}.down": down}
        changes[f"{fold}/{bias}"] = np.full(384, taught, np.float16)
    np.savez(tmp_path / "a.npz", allow_pickle=False, **changes)
    for folds, expected in (([0], 10), ([1], 30), ([0, 1], 20)):
        changed = adapted(bert, folds, tmp_path / "a.npz").weights
        difference = changed[matrix] - bert.weights[matrix]
        assert difference[3, 7] == pytest.approx(expected)
        assert np.count_nonzero(difference) == 1
        np.testing.assert_allclose(changed[bias], bert.weights[bias] + expected)
        assert changed["encoder.layer.7.output.dense.bias"] is bert.weights["encoder.layer.7.output.dense.bias"]


@pytest.mark.parametrize("folds", [*([fold] for fold in FOLDS), FOLDS])
def test_the_change_that_is_kept_fits_the_encoder(bert: Bert, folds: Sequence[int]) -> None:
    changed = adapted(bert, folds).weights
    assert all(changed[name].shape == values.shape for name, values in bert.weights.items())
    assert all(
        not np.array_equal(changed[f"encoder.layer.{n}.{k}"], v)
        for n in range(LOWER_LAYERS + 1)
        for k, v in bert.layer(n).items()
    )


def test_all_training_texts_but_a_fold_teach_each_change(
    corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, file = tmp_path / "corpus.csv", tmp_path / "adapter.npz"
    write_corpus(corpus_slice, corpus)
    train_rows = [row for row in read_corpus(corpus) if row.split == "train"]
    teach = Mock(side_effect=[{"weight": np.full(1, number)} for number in range(2 * len(FOLDS))])
    monkeypatch.setattr(adapt, "adapt", teach)
    for _ in range(2):
        adapt.main(["--corpus", str(corpus), "--to", str(file)])
    first, second = (teach.call_args_list[at : at + len(FOLDS)] for at in (0, len(FOLDS)))
    for calls in (first, second):
        assert [call.args[1] for call in calls] == [
            [row for row in train_rows if fold_of(row) != fold] for fold in FOLDS
        ]
    # The second time each goes on from its own.
    assert [call.args[2:] for call in first] == [(adapt.FROM_THE_BEGINNING, {}) for _ in FOLDS]
    assert [call.args[2:] for call in second] == [(adapt.GOING_ON, {"weight": np.full(1, fold)}) for fold in FOLDS]
    with np.load(file) as stored:
        assert dict(stored) == {f"{fold}/weight": len(FOLDS) + fold for fold in FOLDS}


def test_the_classifier_learns_from_layers_that_its_text_has_not_taught(
    bert: Bert, corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for row in corpus_slice if row.split == "train"][:64]
    start, learned_from, served = trained(rows, tmp_path, monkeypatch)
    windows = [served.windows(normalise(row.text))[0] for row in rows]
    encoders = [write_encoder(adapted(bert, [fold]), tmp_path / f"taught-without-{fold}") for fold in FOLDS]
    assert {fold_of(row) for row in rows} == set(FOLDS)
    for row, window, vectors in zip(rows, windows, learned_from, strict=True):
        np.testing.assert_array_equal(vectors, encoders[fold_of(row)].embed([window])[0].astype(np.float16))
    of_all = write_encoder(adapted(bert), tmp_path / "taught-by-all")
    np.testing.assert_array_equal(served.embed(windows[:1])[0], of_all.embed(windows[:1])[0])
    for name, values in start.layer(LOWER_LAYERS).items():
        np.testing.assert_array_equal(values, adapted(bert).layer(LOWER_LAYERS)[name])


def test_another_encoder_is_served_and_learned_from_as_it_is(
    bert: Bert, corpus_slice: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "pretrained", {"another": bert}.get)
    rows = [row for row in corpus_slice if row.split == "train"][:16]
    start, learned_from, served = trained(rows, tmp_path, monkeypatch, "another")
    assert start is bert
    encoder = write_encoder(bert, tmp_path / "as-it-is")
    windows = [encoder.windows(normalise(row.text))[0] for row in rows]
    for window, vectors in zip(windows, learned_from, strict=True):
        (as_it_is,) = encoder.embed([window])
        np.testing.assert_array_equal(vectors, as_it_is.astype(np.float16))
        np.testing.assert_array_equal(served.embed([window])[0], as_it_is)


def trained(
    rows: list[Row], folder: Path, monkeypatch: pytest.MonkeyPatch, encoder_name: str | None = None
) -> tuple[Bert, list[NDArray[np.float16]], Encoder]:
    """What a training on `rows` gave the classifier, layers to start from and vectors; and the encoder it made."""
    fit = Mock(wraps=fitting.fit)
    monkeypatch.setattr(train, "fit", fit)
    model = train.train_model(rows, replace(train.FAST, epochs=1), folder, encoder_name)
    return fit.call_args.args[0], fit.call_args.args[2], model.encoder


def test_the_folds_are_those_that_have_taught_the_change_that_is_kept() -> None:
    rows = read_corpus()
    shares = np.bincount([fold_of(row) for row in rows]) / len(rows)
    assert shares == pytest.approx([0.25] * 4, abs=0.03)
    folds = {row.id: fold_of(row) for row in rows}
    assert [folds[f"msa-a{number}"] for number in ("000", "004", "022a", "022b", "026a", "026b")] == [2, 3, 0, 0, 1, 1]
