"""The classifier as it is trained, in PyTorch, and as it is written down for serving.

A small ensemble of equal networks, each trained from another seed. A network adds to each word what it has
learned of the word's subwords (as in fastText, Bojanowski et al. 2017), lets the words look at each other in one
transformer layer, pools them several times by learned attention, and reads both targets' levels off all pools.
The members' probabilities are averaged as logarithms (a logarithmic opinion pool, Genest & Zidek 1986).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from model_store import TARGETS
from model_store.classifier import GRAPH_FILE, LEVELS, SUBWORDS_FILE, subword_buckets
from model_store.encoder import Window
from training.encoding import LOWER_LAYERS, Bert
from training.onnx_graphs import GraphBuilder, Weights

_EPSILON = 1e-12


@dataclass(frozen=True)
class Dropout:
    """Sets a share of all values (in 256ths) to 0 and scales the others to keep the mean.

    PyTorch's own draws a number for each value, which takes a tenth of a training on CPUs; here eight values share
    one number, a byte of it each. `generator` draws them.
    """

    share: float
    generator: torch.Generator

    def __call__(self, values: Tensor) -> Tensor:
        limit = round(256 * self.share)
        size = (-(-values.numel() // 8),)
        numbers = torch.randint(-(2**63), 2**63 - 1, size, generator=self.generator, device=values.device)
        kept = numbers.view(torch.uint8)[: values.numel()].view(values.shape) >= limit
        return values * kept * (256 / (256 - limit))


def unchanged(values: Tensor) -> Tensor:
    """What stands for a `Dropout` where nothing is dropped."""
    return values


@dataclass(frozen=True)
class Shape:
    """The sizes of a network.

    Attributes:
        dimensions: length of a word's vector.
        heads: attention heads of the layer.
        inner: width of the layer's feed-forward part.
        buckets: rows of the table that subwords are hashed to.
        subword_dimensions: length of a subword's vector.
        pools: how often the words are pooled; each pool serves both targets.
        learns_words: whether the network has subwords and a layer; without, it only pools and weighs.
    """

    dimensions: int
    heads: int
    inner: int
    buckets: int = 131_072
    subword_dimensions: int = 96
    pools: int = 6
    learns_words: bool = True

    @classmethod
    def above(cls, bert: Bert, learns_words: bool = True) -> "Shape":
        """The sizes of a network on top of the lower layers of `bert`."""
        inner, dimensions = bert.layer(LOWER_LAYERS)["intermediate.dense.weight"].shape
        return cls(dimensions=dimensions, heads=bert.heads, inner=inner, learns_words=learns_words)


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
    """One layer of a BERT encoder (Devlin et al. 2019), over words; its parts are named as in transformers."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d = shape.dimensions
        self.heads = shape.heads
        self.attention = nn.ModuleDict(
            {
                "self": nn.ModuleDict({name: nn.Linear(d, d) for name in ("query", "key", "value")}),
                "output": nn.ModuleDict({"dense": nn.Linear(d, d), "LayerNorm": nn.LayerNorm(d, eps=_EPSILON)}),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(d, shape.inner)})
        self.output = nn.ModuleDict({"dense": nn.Linear(shape.inner, d), "LayerNorm": nn.LayerNorm(d, eps=_EPSILON)})

    def take(self, weights: Weights) -> Self:
        """Start from the weights of a trained layer."""
        self.load_state_dict({name: torch.tensor(values) for name, values in weights.items()})
        return self

    def forward(self, states: Tensor, mask: Tensor, dropout: Callable[[Tensor], Tensor]) -> Tensor:
        """Hidden states in and out, of shape (windows, words, dimensions)."""
        windows, words, dimensions = states.shape
        query, key, value = (
            self.get_submodule(f"attention.self.{part}")(states).view(windows, words, self.heads, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        # By hand: for so short texts PyTorch's own operator is slower.
        scores = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).masked_fill(
            ~mask[:, None, None, :], -torch.inf
        )
        seen = scores.softmax(dim=-1).to(value.dtype) @ value
        seen = self.get_submodule("attention.output.dense")(seen.transpose(1, 2).reshape(windows, words, dimensions))
        states = self.get_submodule("attention.output.LayerNorm")(states + dropout(seen))
        wide = self.output["dense"](functional.gelu(self.intermediate["dense"](states)))
        normalised: Tensor = self.output["LayerNorm"](states + dropout(wide))
        return normalised


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
        self.shape = shape
        self.attention = nn.Linear(d, shape.pools)
        self.levels = nn.Linear(d * shape.pools, len(TARGETS) * LEVELS)

    def pool(self, batch: Batch, dropout: Callable[[Tensor], Tensor] = unchanged) -> Tensor:
        """All pools side by side, float32 of shape (windows, pools * dimensions)."""
        states = batch.states
        if self.shape.learns_words:
            spelled = self.widen_subwords(self.subwords(batch.buckets, batch.offsets))
            states = self.layer(states + functional.embedding(batch.spellings, spelled), batch.mask, dropout)
        weights = self.attention(states).masked_fill(~batch.mask[:, :, None], -torch.inf).softmax(dim=1)
        pools = torch.einsum("nwp,nwd->npd", weights, states).flatten(1).float()
        return dropout(pools)

    def forward(self, pools: Tensor) -> Tensor:
        """Logits, float32 of shape (windows, targets, levels), of what `pool` gave."""
        logits: Tensor = self.levels(pools)
        return logits.view(-1, len(TARGETS), LEVELS)

    @torch.no_grad()
    def raise_odds(self, factors: Sequence[Sequence[float]]) -> None:
        """Multiply the odds of each target's levels by their `factors`, (targets, levels)."""
        self.levels.bias.add_(torch.tensor(factors).log().flatten())


def padded(rows: Sequence[NDArray[np.floating[Any]]]) -> Tensor:
    """Arrays (length, dimensions) of one type as one tensor (arrays, greatest length, dimensions), zero behind each."""
    return nn.utils.rnn.pad_sequence([torch.from_numpy(one) for one in rows], batch_first=True)


def present(lengths: Sequence[int]) -> Tensor:
    """Which places `padded` fills from arrays of these lengths, bool (arrays, greatest length)."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def collate(windows: Sequence[Window], states: Tensor, buckets: int) -> Batch:
    """Windows and the vectors of their words, of shape (windows, words, dimensions)."""
    mask = present([len(window.words) for window in windows])
    spellings = torch.zeros(mask.shape, dtype=torch.long)
    numbers: dict[str, int] = {}
    for row, window in enumerate(windows):
        words = [numbers.setdefault(word, len(numbers)) for word in window.words]
        spellings[row, : len(words)] = torch.tensor(words)
    per_word = [_kept_subword_buckets(word, buckets) for word in numbers]
    offsets = np.cumsum([0, *map(len, per_word[:-1])])
    flat = [bucket for of_word in per_word for bucket in of_word]
    return Batch(states, mask, spellings, torch.tensor(flat, dtype=torch.long), torch.from_numpy(offsets))


_kept_subword_buckets = lru_cache(maxsize=None)(subword_buckets)


def write_classifier(members: Sequence[SeverityNetwork], folder: Path) -> None:
    """Write the graph of all members, and what they have learned of subwords side by side, to `folder`."""
    builder = GraphBuilder()
    shape = members[0].shape
    logs = [_add_member(builder, member, number) for number, member in enumerate(members)]
    mean = builder.add("Mean", *(builder.add("LogSoftmax", log, axis=-1) for log in logs))
    inputs = {"words": shape.dimensions}
    if shape.learns_words:
        inputs["spellings"] = shape.subword_dimensions * len(members)
        tables = [member.subwords.weight.detach().numpy().astype(np.float16) for member in members]
        np.save(folder / SUBWORDS_FILE, np.concatenate(tables, axis=1))
    builder.write(folder / GRAPH_FILE, inputs, builder.add("Softmax", mean, axis=-1))


def _add_member(builder: GraphBuilder, member: SeverityNetwork, number: int) -> str:
    """The logits of one member, (targets, levels)."""
    weights: Weights = {name: values.numpy() for name, values in member.state_dict().items()}
    shape, rows = member.shape, "words"
    if shape.learns_words:
        width = shape.subword_dimensions
        start, end = (builder.constant(np.array([width * at])) for at in (number, number + 1))
        own = builder.add("Slice", "spellings", start, end, builder.constant(np.array([1])))
        widened = builder.add("MatMul", own, builder.constant(weights["widen_subwords.weight"].T))
        layer = {name.removeprefix("layer."): values for name, values in weights.items() if name.startswith("layer.")}
        rows = builder.transformer_layer(builder.add("Add", rows, widened), layer, shape.heads, _EPSILON)
    scores = builder.add("MatMul", rows, builder.constant(weights["attention.weight"].T))
    shares = builder.add("Softmax", builder.add("Add", scores, builder.constant(weights["attention.bias"])), axis=0)
    pools = builder.add("MatMul", builder.add("Transpose", shares, perm=[1, 0]), rows)
    pools = builder.add("Reshape", pools, builder.constant(np.array([1, -1])))
    logits = builder.add("MatMul", pools, builder.constant(weights["levels.weight"].T))
    logits = builder.add("Add", logits, builder.constant(weights["levels.bias"]))
    return builder.add("Reshape", logits, builder.constant(np.array([len(TARGETS), LEVELS])))
