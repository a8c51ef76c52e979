"""Fits the classifier to embedded texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from model_store import TARGETS
from model_store.encoder import Window
from training.encoding import FROZEN_LAYERS, Bert
from training.network import SeverityNetwork, Shape, collate

_DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained; the defaults were chosen on a validation part of the training texts.

    Attributes:
        members: networks in the ensemble.
        epochs: passes of each network over the texts.
        learns_words: see `Shape`; without, the networks are a linear model on frozen vectors.
        batch_texts: texts of one step.
        rate_layer, rate_head, rate_subwords: highest learning rates of the parts.
        dropout: share of values dropped in training.
        kind_weight: weight of a side task, to tell a text's kind, which teaches the network why words mislead.
        smoothing: share of each label spread over all levels, against too much certainty (Szegedy et al. 2016).
    """

    members: int = 3
    epochs: int = 3
    learns_words: bool = True
    batch_texts: int = 32
    rate_layer: float = 1e-3
    rate_head: float = 2e-3
    rate_subwords: float = 5e-3
    dropout: float = 0.3
    kind_weight: float = 0.3
    smoothing: float = 0.1
    weight_decay: float = 0.01
    warm_up: float = 0.06

    def steps(self, texts: int) -> int:
        """How often the weights of one network are changed, given so many texts."""
        return self.epochs * -(-texts // self.batch_texts)


@dataclass(frozen=True)
class Examples:
    """What is learned from: windows, the vectors of their words, levels int64 (n, 2) and kinds as numbers (n,)."""

    windows: Sequence[Window]
    embedded: Sequence[NDArray[np.float32]]
    levels: NDArray[np.int64]
    kinds: NDArray[np.int64]


def fit(bert: Bert, examples: Examples, recipe: Recipe, seed: int) -> list[SeverityNetwork]:
    """Train the ensemble behind a progress bar, on a GPU where there is one; each starts from `bert`'s next layer.

    The same examples, recipe, seed and machine give the same networks.
    """
    inner, dimensions = bert.layer(FROZEN_LAYERS)["intermediate.dense.weight"].shape
    shape = Shape(dimensions=dimensions, heads=bert.heads, inner=inner, learns_words=recipe.learns_words)
    with tqdm(total=recipe.members * recipe.steps(len(examples.windows)), desc="training", unit="step") as progress:
        trainings = [_Training(bert, examples, recipe, shape, seed + n) for n in range(recipe.members)]
        return [training.run(progress).cpu() for training in trainings]


@dataclass(frozen=True)
class _Training:
    """The training of one member of the ensemble."""

    bert: Bert
    examples: Examples
    recipe: Recipe
    shape: Shape
    seed: int

    def run(self, progress: "tqdm[Any]") -> SeverityNetwork:
        torch.manual_seed(self.seed)
        random = np.random.default_rng(self.seed)
        network = SeverityNetwork(self.shape)
        if self.shape.learns_words:
            next_layer = self.bert.layer(FROZEN_LAYERS)
            network.layer.load_state_dict({name: torch.tensor(values) for name, values in next_layer.items()})
        kind_head = nn.Linear(self.shape.dimensions * len(TARGETS), int(self.examples.kinds.max()) + 1)
        network.to(_DEVICE).train()
        kind_head.to(_DEVICE)
        lengths = [len(window.words) for window in self.examples.windows]
        optimisers = _optimisers(network, kind_head, self.recipe, self.recipe.steps(len(lengths)))
        for _ in range(self.recipe.epochs):
            for rows in _shuffled(lengths, self.recipe.batch_texts, random):
                self.loss(network, kind_head, rows).backward()
                dense = [p for p in network.parameters() if p.grad is not None and not p.grad.is_sparse]
                nn.utils.clip_grad_norm_(dense, 1.0)
                for optimiser, schedule in optimisers:
                    optimiser.step()
                    schedule.step()
                    optimiser.zero_grad()
                progress.update()
        return network

    def loss(self, network: SeverityNetwork, kind_head: nn.Module, rows: NDArray[np.int64]) -> Tensor:
        """Cross-entropy of both targets' levels, and of the kind as the side task."""
        windows = [self.examples.windows[row] for row in rows]
        embedded = [self.examples.embedded[row] for row in rows]
        levels = torch.from_numpy(self.examples.levels[rows]).to(_DEVICE)
        kinds = torch.from_numpy(self.examples.kinds[rows]).to(_DEVICE)
        pools = network.pool(collate(windows, embedded, self.shape.buckets).to(_DEVICE), self.recipe.dropout)
        smoothing = self.recipe.smoothing
        of_levels = functional.cross_entropy(network(pools).flatten(0, 1), levels.flatten(), label_smoothing=smoothing)
        of_kinds = functional.cross_entropy(kind_head(pools), kinds, label_smoothing=smoothing)
        return len(TARGETS) * of_levels + self.recipe.kind_weight * of_kinds


def _optimisers(
    network: SeverityNetwork, kind_head: nn.Module, recipe: Recipe, steps: int
) -> list[tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]]:
    """AdamW for the dense weights, SparseAdam for the table of subwords; the rates rise shortly, then fall to zero."""
    parts: dict[str, list[nn.Parameter]] = {"layer": [], "head": list(kind_head.parameters()), "subwords": []}
    for name, parameter in network.named_parameters():
        parts[name.split(".")[0] if name.startswith(("layer.", "subwords.")) else "head"].append(parameter)
    warm_up = int(recipe.warm_up * steps) + 1

    def share(step: int) -> float:
        return min(1.0, (step + 1) / warm_up) * max(0.0, 1 - step / steps)

    dense = [
        {"params": parts["layer"], "lr": recipe.rate_layer},
        {"params": parts["head"], "lr": recipe.rate_head},
    ]
    optimisers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW([group for group in dense if group["params"]], weight_decay=recipe.weight_decay)
    ]
    if parts["subwords"]:
        optimisers.append(torch.optim.SparseAdam(parts["subwords"], lr=recipe.rate_subwords))
    return [(optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, share)) for optimiser in optimisers]


def _shuffled(lengths: Sequence[int], size: int, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Row numbers in batches of `size`, in random order; rows of one batch have much the same length."""
    order = random.permutation(len(lengths))
    found = []
    for start in range(0, len(order), size * 16):
        stretch = sorted(order[start : start + size * 16].tolist(), key=lambda row: lengths[row])
        found += [np.array(stretch[at : at + size]) for at in range(0, len(stretch), size)]
    return [found[index] for index in random.permutation(len(found))]
