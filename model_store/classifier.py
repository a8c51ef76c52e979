"""The classifier: the vectors of a text's words in, the probability of each severity level out.

`training.network` says what its graph computes. The stored files are an ONNX graph and a plain
array: numbers and arithmetic alone, nothing else that could run.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model_store import TARGETS
from model_store.encoder import Window, mean_of_runs
from model_store.graph import Graph

GRAPH_FILE = "classifier.onnx"
SUBWORDS_FILE = "subwords.npy"
LEVELS = 4
# A shorter piece says little, a longer one is seldom met twice.
SUBWORD_LENGTHS = (3, 4, 5)
# More than this share of the probability must stand behind a level for it to be taken as it is.
CLEAR = 0.5
_LONGEST_WORD = 64


class SeverityClassifier:
    """Windows and the vectors of their words in, probabilities of levels out.

    Attributes:
        subwords: float16 (buckets, dimensions of all networks side by side), what the networks have learned of
            subwords; read from disk as needed. None for a classifier that knows nothing but the encoder's vectors.
    """

    def __init__(self, graph: Graph, subwords: NDArray[np.float16] | None) -> None:
        self.graph, self.subwords = graph, subwords

    @property
    def name(self) -> str:
        """As answered in `meta.classifier`."""
        return "attention-linear" if self.subwords is None else "subword-transformer"

    def probabilities(self, windows: Sequence[Window], embedded: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Probabilities of the levels 0..3, float32 of shape (windows, 2, 4), targets in the order of `TARGETS`."""
        inputs = [{"words": vectors} for vectors in embedded]
        if self.subwords is not None:
            for one, window in zip(inputs, windows, strict=True):
                one["spellings"] = self._spellings(self.subwords, window.words)
        return np.array(self.graph.run(inputs), dtype=np.float32).reshape(-1, len(TARGETS), LEVELS)

    def _spellings(self, subwords: NDArray[np.float16], words: Sequence[str]) -> NDArray[np.float32]:
        """For each word the mean vector of its subwords, float32 (words, columns of `subwords`)."""
        buckets = [subword_buckets(word, len(subwords)) for word in words]
        starts = np.cumsum([0, *(len(of_word) for of_word in buckets[:-1])]).tolist()
        return mean_of_runs(subwords[np.concatenate(buckets)].astype(np.float32), starts)

    @classmethod
    def load(cls, folder: Path) -> "SeverityClassifier":
        """Read what `training.network.write_classifier` wrote.

        Raises FileNotFoundError, naming the file, when the graph is missing, and ValueError when the files are
        not those of a classifier.
        """
        if not (folder / GRAPH_FILE).is_file():
            raise FileNotFoundError(f"no {GRAPH_FILE} in the stored model; train again")
        try:
            graph = Graph(folder / GRAPH_FILE)
            has_subwords = "spellings" in graph.inputs
            subwords = np.load(folder / SUBWORDS_FILE, mmap_mode="r", allow_pickle=False) if has_subwords else None
        except FileNotFoundError:
            raise FileNotFoundError(f"no {SUBWORDS_FILE} in the stored model; train again") from None
        except Exception as error:
            raise ValueError(f"{GRAPH_FILE} and {SUBWORDS_FILE} are not a classifier; train again") from error
        return cls(graph, subwords)


def decide(probabilities: NDArray[np.float32]) -> NDArray[np.int64]:
    """Levels 0..3 from probabilities; the last axis, of 4 levels, goes.

    A level with more than `CLEAR` of the probability is taken. Otherwise the expected level, the mean of the
    levels weighed by their probabilities, decides, rounded; halves go up, to the more severe level.
    """
    likeliest = probabilities.argmax(axis=-1)
    # Rounded first, so that the last bits of a float decide nothing.
    expected = np.round(probabilities.astype(np.float64) @ np.arange(LEVELS), 3)
    levels = np.where(probabilities.max(axis=-1) > CLEAR, likeliest, np.floor(expected + 0.5))
    return levels.astype(np.int64)


def subword_buckets(word: str, buckets: int) -> list[int]:
    """The buckets of a word and of its subwords of `SUBWORD_LENGTHS`, its ends marked; never none."""
    marked = f"<{word[:_LONGEST_WORD]}>"
    pieces = [marked[at : at + size] for size in SUBWORD_LENGTHS for at in range(len(marked) - size + 1)]
    return [zlib.crc32(piece.encode("utf-8")) % buckets for piece in [marked, *pieces]]
