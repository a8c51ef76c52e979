"""The classifier: the vectors of a text's words in, the probability of each severity level out.

A small ensemble of equal networks, each trained from another seed. A network adds to each word what it has
learned of the word's subwords (as in fastText, Bojanowski et al. 2017), lets the words look at each other in one
transformer layer, pools them by learned attention, once per target, and reads both targets' levels off the pools.
The stored file is safetensors: numbers alone, nothing that could run.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from model_store import TARGETS
from model_store.encoder import Window, batches

WEIGHTS_FILE = "classifier.safetensors"
SHAPE_FILE = "classifier.json"
LEVELS = 4
# A shorter piece says little, a longer one is seldom met twice.
SUBWORD_LENGTHS = (3, 4, 5)
# At least this share of the probability must stand behind a level for it to be taken as it is.
CLEAR = 0.7
_BATCH_WORDS = 4096
_LONGEST_WORD = 64


@dataclass(frozen=True)
class Shape:
    """The sizes that a stored classifier's weights follow from.

    Attributes:
        dimensions: length of a word's vector.
        heads: attention heads of the layer.
        inner: width of the layer's feed-forward part.
        buckets: rows of the table that subwords are hashed to.
        subword_dimensions: length of a subword's vector.
        members: networks in the ensemble.
        learns_words: whether the networks have subwords and a layer; without, they only pool and weigh.
    """

    dimensions: int
    heads: int
    inner: int
    buckets: int = 131_072
    subword_dimensions: int = 96
    members: int = 2
    learns_words: bool = True


class Batch(NamedTuple):
    """Windows of words as tensors.

    states: float32 (windows, words, dimensions), zero where a window has no more words.
    mask: bool (windows, words).
    spellings: int64 (windows, words), which of the distinct words stands there; 0 where none does.
    buckets, offsets: int64, the subwords of all distinct words in a row, and where each word's begin.
    """

    states: Tensor
    mask: Tensor
    spellings: Tensor
    buckets: Tensor
    offsets: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same on `device`."""
        return Batch(*(part.to(device) for part in self))


class WordLayer(nn.Module):
    """One layer of a BERT encoder (Devlin et al. 2019), over words."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d = shape.dimensions
        self.heads = shape.heads
        self.query, self.key, self.value, self.output = (nn.Linear(d, d) for _ in range(4))
        self.widen, self.narrow = nn.Linear(d, shape.inner), nn.Linear(shape.inner, d)
        self.norm_attention, self.norm_output = nn.LayerNorm(d, eps=1e-12), nn.LayerNorm(d, eps=1e-12)

    def copy_from(self, layer: nn.Module) -> None:
        """Start from a pre-trained layer of `transformers`."""
        names = {
            "attention.self.query": self.query,
            "attention.self.key": self.key,
            "attention.self.value": self.value,
            "attention.output.dense": self.output,
            "attention.output.LayerNorm": self.norm_attention,
            "intermediate.dense": self.widen,
            "output.dense": self.narrow,
            "output.LayerNorm": self.norm_output,
        }
        for name, part in names.items():
            part.load_state_dict(layer.get_submodule(name).state_dict())

    def forward(self, states: Tensor, mask: Tensor, dropout: float) -> Tensor:
        """Hidden states in and out, of shape (windows, words, dimensions)."""
        windows, words, dimensions = states.shape
        query, key, value = (
            part(states).view(windows, words, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        seen = self.output(seen.transpose(1, 2).reshape(windows, words, dimensions))
        states = self.norm_attention(states + functional.dropout(seen, dropout, self.training))
        wide = self.narrow(functional.gelu(self.widen(states)))
        return self.norm_output(states + functional.dropout(wide, dropout, self.training))


class SeverityNetwork(nn.Module):
    """One member of the ensemble."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d = shape.dimensions
        if shape.learns_words:
            self.subwords = nn.EmbeddingBag(shape.buckets, shape.subword_dimensions, mode="mean", sparse=True)
            self.widen_subwords = nn.Linear(shape.subword_dimensions, d, bias=False)
            nn.init.normal_(self.subwords.weight, std=0.02)
            nn.init.normal_(self.widen_subwords.weight, std=0.02)
            self.layer = WordLayer(shape)
        self.learns_words = shape.learns_words
        self.attention = nn.Linear(d, len(TARGETS))
        self.levels = nn.Linear(d * len(TARGETS), len(TARGETS) * LEVELS)

    def pool(self, batch: Batch, dropout: float = 0.0) -> Tensor:
        """The pools of all targets side by side, float32 of shape (windows, targets * dimensions)."""
        states = batch.states
        if self.learns_words:
            spelled = self.widen_subwords(self.subwords(batch.buckets, batch.offsets))
            states = self.layer(states + functional.embedding(batch.spellings, spelled), batch.mask, dropout)
        weights = self.attention(states).masked_fill(~batch.mask[:, :, None], -torch.inf).softmax(dim=1)
        pools = torch.einsum("nwt,nwd->ntd", weights, states).flatten(1)
        return functional.dropout(pools, dropout, self.training)

    def forward(self, pools: Tensor) -> Tensor:
        """Logits, float32 of shape (windows, targets, levels), of what `pool` gave."""
        logits: Tensor = self.levels(pools)
        return logits.view(-1, len(TARGETS), LEVELS)


class SeverityClassifier:
    """Windows and the vectors of their words in, probabilities of levels out."""

    def __init__(self, shape: Shape, members: Sequence[SeverityNetwork]) -> None:
        self.shape, self.members = shape, [member.eval() for member in members]

    @property
    def name(self) -> str:
        """As answered in `meta.classifier`."""
        return "subword-transformer" if self.shape.learns_words else "attention-linear"

    @torch.inference_mode()
    def probabilities(self, windows: Sequence[Window], embedded: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Probabilities of the levels 0..3, float32 of shape (windows, 2, 4), targets in the order of `TARGETS`.

        The members' probabilities are averaged as logarithms (a logarithmic opinion pool, Genest & Zidek 1986).
        """
        found = np.empty((len(windows), len(TARGETS), LEVELS), dtype=np.float32)
        for rows in batches([len(window.words) for window in windows], _BATCH_WORDS):
            batch = collate([windows[row] for row in rows], [embedded[row] for row in rows], self.shape.buckets)
            logs = [network(network.pool(batch)).log_softmax(dim=-1) for network in self.members]
            found[rows] = torch.stack(logs).mean(dim=0).softmax(dim=-1).numpy()
        return found

    def save(self, folder: Path) -> None:
        """Write the weights (safetensors, float16) and their shape to `folder`."""
        weights = {name: value.half().contiguous() for name, value in nn.ModuleList(self.members).state_dict().items()}
        save_file(weights, folder / WEIGHTS_FILE)
        (folder / SHAPE_FILE).write_text(json.dumps(asdict(self.shape)), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "SeverityClassifier":
        """Read what `save` wrote.

        Raises FileNotFoundError, naming the file, when one is missing, and ValueError when the weights
        are not those of the shape.
        """
        for name in (WEIGHTS_FILE, SHAPE_FILE):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"no {name} in the stored model; train again")
        try:
            shape = Shape(**json.loads((folder / SHAPE_FILE).read_text(encoding="utf-8")))
            weights = {name: value.float() for name, value in load_file(folder / WEIGHTS_FILE).items()}
            with torch.device("meta"):  # no weights are made only to be replaced
                members = [SeverityNetwork(shape) for _ in range(shape.members)]
            nn.ModuleList(members).load_state_dict(weights, assign=True)
        except Exception as error:
            raise ValueError(f"{WEIGHTS_FILE} is not a classifier of the shape in {SHAPE_FILE}; train again") from error
        return cls(shape, members)


def decide(probabilities: NDArray[np.float32]) -> NDArray[np.int64]:
    """Levels 0..3 from probabilities; the last axis, of 4 levels, goes.

    A level with at least `CLEAR` of the probability is taken. Otherwise the expected level, the mean of the
    levels weighed by their probabilities, decides, rounded; halves go up, to the more severe level.
    """
    likeliest = probabilities.argmax(axis=-1)
    # Rounded first, so that the last bits of a float decide nothing.
    expected = np.round(probabilities.astype(np.float64) @ np.arange(LEVELS), 3)
    levels = np.where(probabilities.max(axis=-1) >= CLEAR, likeliest, np.floor(expected + 0.5))
    return levels.astype(np.int64)


def collate(windows: Sequence[Window], embedded: Sequence[NDArray[np.float32]], buckets: int) -> Batch:
    """The tensors of some windows, padded to the longest."""
    longest = max(len(window.words) for window in windows)
    states = torch.zeros(len(windows), longest, embedded[0].shape[1])
    spellings = torch.zeros(len(windows), longest, dtype=torch.long)
    numbers: dict[str, int] = {"": 0}  # number 0, of no subwords, stands where no word does
    for row, (window, vectors) in enumerate(zip(windows, embedded, strict=True)):
        states[row, : len(vectors)] = torch.from_numpy(vectors)
        spellings[row, : len(vectors)] = torch.tensor([numbers.setdefault(w, len(numbers)) for w in window.words])
    mask = torch.arange(longest) < torch.tensor([len(window.words) for window in windows])[:, None]
    per_word = [subword_buckets(word, buckets) for word in numbers]
    offsets = np.cumsum([0, *map(len, per_word[:-1])])
    flat = [bucket for of_word in per_word for bucket in of_word]
    return Batch(states, mask, spellings, torch.tensor(flat, dtype=torch.long), torch.from_numpy(offsets))


@lru_cache(maxsize=50_000)
def subword_buckets(word: str, buckets: int) -> tuple[int, ...]:
    """The buckets of a word and of its subwords of `SUBWORD_LENGTHS`, its ends marked; none for no word."""
    if not word:
        return ()
    marked = f"<{word[:_LONGEST_WORD]}>"
    pieces = [marked[at : at + size] for size in SUBWORD_LENGTHS for at in range(len(marked) - size + 1)]
    return tuple(zlib.crc32(piece.encode("utf-8")) % buckets for piece in [marked, *pieces])
