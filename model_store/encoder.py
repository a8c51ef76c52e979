"""The encoder: normalised text in, one vector per word of each window out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from model_store.graph import Graph

GRAPH_FILE = "encoder.onnx"
PIECES_FILE = "pieces.npy"
TOKENIZER_FILE = "tokenizer.json"
# A window holds a long diary entry. Longer texts become several overlapping windows, so that
# one severe sentence in a long text meets the classifier at the length it was trained on.
WINDOW_TOKENS = 256
OVERLAP_TOKENS = 32


@dataclass(frozen=True)
class Window:
    """A stretch of text that is read at once.

    Attributes:
        ids: token ids, special tokens included.
        words: the words of the window; the special tokens count as one word each.
        starts: for each word the index of its first token; a word ends where the next one starts.
    """

    ids: list[int]
    words: list[str]
    starts: list[int]


class Encoder:
    """The lower layers of a BERT encoder, with its tokenizer.

    Attributes:
        name: Hugging Face id or folder name, as answered in `meta.embedding_model`.
        pieces: float16 (vocabulary, dimensions), the vectors that the graph starts from; read from disk as needed.
    """

    def __init__(self, name: str, graph: Graph, pieces: NDArray[np.float16], tokenizer: Tokenizer) -> None:
        self.name, self.graph, self.pieces, self.tokenizer = name, graph, pieces, tokenizer
        frame = tokenizer.encode("")
        (self._head, self._tail), (self._head_word, self._tail_word) = frame.ids, frame.tokens

    @classmethod
    def load(cls, folder: Path, name: str) -> "Encoder":
        """Read what `training.encoding.write_encoder` wrote."""
        pieces = np.load(folder / PIECES_FILE, mmap_mode="r", allow_pickle=False)
        return cls(name, Graph(folder / GRAPH_FILE), pieces, Tokenizer.from_file(str(folder / TOKENIZER_FILE)))

    @property
    def dimensions(self) -> int:
        """Length of one word's vector."""
        return int(self.pieces.shape[1])

    def windows(self, text: str) -> list[Window]:
        """`text`, normalised, as one or more windows, each complete with special tokens."""
        tokens = self.tokenizer.encode(text, add_special_tokens=False)
        ids, offsets, words = tokens.ids, tokens.offsets, tokens.word_ids
        room = WINDOW_TOKENS - 2
        starts = range(0, max(1, len(ids) - OVERLAP_TOKENS), room - OVERLAP_TOKENS) if len(ids) > room else (0,)
        return [
            self._window(text, ids[start : start + room], offsets[start : start + room], words[start : start + room])
            for start in starts
        ]

    def _window(self, text: str, ids: list[int], offsets: list[tuple[int, int]], word_ids: list[int | None]) -> Window:
        begins = [token for token in range(len(ids)) if token == 0 or word_ids[token] != word_ids[token - 1]]
        words = [text[offsets[begin][0] : offsets[end - 1][1]].strip() for begin, end in pairwise([*begins, len(ids)])]
        return Window(
            ids=[self._head, *ids, self._tail],
            words=[self._head_word, *words, self._tail_word],
            starts=[0, *(begin + 1 for begin in begins), len(ids) + 1],
        )

    def embed(self, windows: Sequence[Window]) -> list[NDArray[np.float32]]:
        """For each window the vectors of its words, float32 of shape (words, dimensions).

        A word's vector is the mean of its tokens' hidden states after the graph's last layer.
        """
        states = self.graph.run([{"pieces": self.pieces[window.ids].astype(np.float32)} for window in windows])
        return [mean_of_runs(tokens, window.starts) for tokens, window in zip(states, windows, strict=True)]


def mean_of_runs(rows: NDArray[np.float32], starts: Sequence[int]) -> NDArray[np.float32]:
    """The mean of each run of `rows`, float32 (runs, columns); a run goes from its start to the next, none is empty."""
    lengths = np.diff([*starts, len(rows)])[:, None]
    sums: NDArray[np.float32] = np.add.reduceat(rows, starts, axis=0)
    return np.divide(sums, lengths, dtype=np.float32)
