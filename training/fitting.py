"""Trains the networks of the classifier."""

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from corpus import KINDS, Row
from evaluation import levels_of
from model_store import TARGETS
from model_store.classifier import LEVELS
from model_store.encoder import Encoder, Window
from model_store.normalisation import normalise
from training.encoding import LOWER_LAYERS, Bert
from training.network import Dropout, SeverityNetwork, Shape, collate, padded

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SEED = 20
# Faster where there are instructions for it, many times slower elsewhere.
_MULTIPLIES_BF16 = (
    torch.cuda.is_bf16_supported(including_emulation=False)
    if DEVICE.type == "cuda"
    else bool(torch.cpu.get_capabilities().get("avx512_bf16"))
)
ParameterGroup = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained; the defaults were chosen on a validation part of the training texts.

    Attributes:
        members: networks in the ensemble.
        epochs: passes of each network over the texts.
        reviews: passes after those, each over the texts that the network has learned worst; most texts are learned
            soon, and the time is better spent on the others (Jiang et al. 2019).
        reviewed: the share of the texts that a review is over.
        learns_words: see `Shape`; without, the networks are a linear model on frozen vectors.
        batch_texts: texts of one step.
        rate_layer, rate_head, rate_subwords: highest learning rates of the parts.
        dropout: share of values dropped in training.
        kind_weight: weight of a side task, to tell a text's kind, which teaches the network why words mislead.
        step_weight: weight of another, to tell for each target whether it is above 0, above 1 and above 2 (cf. Frank &
            Hall 2001), which teaches it that the levels have an order.
        smoothing: share of each label spread over all levels, against too much certainty (Szegedy et al. 2016).
        odds: for each target, a factor on the odds of each level once trained (cf. Saerens et al. 2002). More for 0
            against false alarms, as it is commoner in life than in the corpus; more for 3, so that these do not cost
            severe texts. A text torn between both would else be put between them (see `decide`).
    """

    members: int = 2
    epochs: int = 1
    reviews: int = 2
    reviewed: float = 0.25
    learns_words: bool = True
    batch_texts: int = 96
    rate_layer: float = 2.4e-3
    rate_head: float = 4.8e-3
    rate_subwords: float = 12e-3
    dropout: float = 0.2
    kind_weight: float = 0.3
    step_weight: float = 0.5
    smoothing: float = 0.1
    odds: tuple[tuple[float, ...], ...] = ((2.7, 1.0, 1.0, 2.0), (3.5, 1.0, 1.0, 2.0))
    weight_decay: float = 0.01
    warm_up: float = 0.06

    def steps(self, texts: int) -> int:
        """How often the weights of one network are changed, given so many texts."""
        return sum(-(-passed // self.batch_texts) for passed in self.passes(texts))

    def passes(self, texts: int) -> list[int]:
        """How many of so many texts each pass is over."""
        return [texts] * self.epochs + [int(self.reviewed * texts)] * self.reviews


@dataclass(frozen=True)
class Examples:
    """What is learned from: windows, levels int64 (n, 2) and kinds, as numbers, int64 (n,)."""

    windows: Sequence[Window]
    levels: NDArray[np.int64]
    kinds: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Row], encoder: Encoder) -> "Examples":
        """`rows` of the corpus, of each text its first window."""
        windows = [encoder.windows(normalise(row.text))[0] for row in rows]
        return cls(windows, levels_of(rows), np.array([KINDS.index(row.kind) for row in rows]))


def in_bfloat16() -> torch.autocast:
    """Within it matrices are multiplied in bfloat16, where there are instructions for that."""
    return torch.autocast(DEVICE.type, torch.bfloat16, enabled=_MULTIPLIES_BF16)


def fit(
    bert: Bert, examples: Examples, embedded: Sequence[NDArray[np.float16]], recipe: Recipe
) -> list[SeverityNetwork]:
    """Train the ensemble on the vectors of the examples' words, behind a progress bar, on a GPU where there is one.

    `bert` gives the layer that the networks' own start from.
    The same examples, recipe and machine give the same networks.
    """
    trainings = [OnVectors(bert, examples, recipe, SEED + number, embedded) for number in range(recipe.members)]
    networks = side_by_side(trainings, "training")
    for network in networks:
        network.raise_odds(recipe.odds)
    return networks


@dataclass
class Training:
    """The training of one network; its layer starts as the encoder's next one.

    Made one after the other, as the first weights come of PyTorch's own random numbers, several can run at the same
    time, each once.

    Attributes:
        stopped: once true, `run` ends after the step it is at; the network is then of no use.
    """

    bert: Bert
    examples: Examples
    recipe: Recipe
    seed: int

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.network = SeverityNetwork(Shape.above(self.bert, self.recipe.learns_words))
        if self.recipe.learns_words:
            self.network.layer.take(self.bert.layer(LOWER_LAYERS))
        pooled = self.network.shape.dimensions * self.network.shape.pools
        self.kind_head = nn.Linear(pooled, len(KINDS)).to(DEVICE)
        self.step_head = nn.Linear(pooled, len(TARGETS) * (LEVELS - 1)).to(DEVICE)
        self.network.to(DEVICE)
        self.dropout = Dropout(self.recipe.dropout, torch.Generator(DEVICE).manual_seed(self.seed))
        self.stopped = False

    def run(self, progress: "tqdm[Any]") -> SeverityNetwork:
        random = np.random.default_rng(self.seed)
        lengths = np.array([len(window.words) for window in self.examples.windows])
        groups = self.parameter_groups()
        optimisers = _optimisers(groups, self.network, self.recipe, self.recipe.steps(len(lengths)))
        dense = [parameter for group in groups for parameter in group["params"]]
        last_losses = np.zeros(len(lengths), np.float32)
        for texts in self.recipe.passes(len(lengths)):
            learned_worst = np.argsort(-last_losses, kind="stable")[:texts]
            for rows in _shuffled(learned_worst, lengths, self.recipe.batch_texts, random):
                if self.stopped:
                    return self.network
                losses = self.losses(rows)
                last_losses[rows] = losses.detach().cpu()
                losses.mean().backward()
                nn.utils.clip_grad_norm_(dense, 1.0)
                for optimiser, schedule in optimisers:
                    optimiser.step()
                    schedule.step()
                    optimiser.zero_grad()
                progress.update()
        return self.network.cpu()

    def losses(self, rows: NDArray[np.int64]) -> Tensor:
        """Cross-entropy of both targets' levels, and of the kind and of the steps as side tasks, float32 (rows,)."""
        levels = torch.from_numpy(self.examples.levels[rows]).to(DEVICE)
        kinds = torch.from_numpy(self.examples.kinds[rows]).to(DEVICE)
        windows = [self.examples.windows[row] for row in rows]
        batch = collate(windows, self.states(rows), self.network.shape.buckets).to(DEVICE)
        with in_bfloat16():
            pools = self.network.pool(batch, self.dropout)
        of_levels = self.level_losses(self.network(pools), levels).sum(dim=1)
        of_kinds = self.cross_entropy(self.kind_head(pools), kinds)
        steps = self.step_head(pools).view(len(rows), len(TARGETS), -1)
        of_steps = step_losses(steps, levels, smoothing=self.recipe.smoothing / 2).sum(dim=(1, 2))
        return of_levels + self.recipe.kind_weight * of_kinds + self.recipe.step_weight * of_steps

    def level_losses(self, logits: Tensor, levels: Tensor) -> Tensor:
        """Cross-entropy of each target's level, float32 (rows, targets), from the network's logits."""
        return self.cross_entropy(logits.flatten(0, 1), levels.flatten()).view(levels.shape)

    def cross_entropy(self, logits: Tensor, classes: Tensor) -> Tensor:
        """One for each row, labels smoothed."""
        return functional.cross_entropy(logits, classes, label_smoothing=self.recipe.smoothing, reduction="none")

    def states(self, rows: NDArray[np.int64]) -> Tensor:
        """The vectors of the words of the examples `rows`, float32 (rows, words, dimensions), zero behind each."""
        raise NotImplementedError

    def parameter_groups(self) -> list[ParameterGroup]:
        """The weights that learn, but for those of subwords, and their highest learning rates."""
        network = self.network
        heads = (network.attention, network.levels, self.kind_head, self.step_head)
        head = [weights for part in heads for weights in part.parameters()]
        if not self.recipe.learns_words:
            return [{"params": head, "lr": self.recipe.rate_head}]
        head += network.widen_subwords.parameters()
        layer = list(network.layer.parameters())
        return [{"params": head, "lr": self.recipe.rate_head}, {"params": layer, "lr": self.recipe.rate_layer}]


@dataclass
class OnVectors(Training):
    """On words' vectors that stay as they are, those of all examples."""

    embedded: Sequence[NDArray[np.float16]]

    def states(self, rows: NDArray[np.int64]) -> Tensor:
        return padded([self.embedded[row] for row in rows]).float()


def side_by_side(trainings: Sequence[Training], label: str) -> list[SeverityNetwork]:
    """Run all trainings at the same time, the cores shared among them, behind one progress bar.

    Such small products of matrices leave a second core half idle: on two cores two trainings on one each take a fifth
    less time than one after the other on both.
    """
    cores = torch.get_num_threads()
    steps = sum(one.recipe.steps(len(one.examples.windows)) for one in trainings)
    with tqdm(total=steps, desc=label, unit="step") as progress, ThreadPoolExecutor(len(trainings)) as pool:
        try:
            torch.set_num_threads(max(1, cores // len(trainings)))
            running = [pool.submit(training.run, progress) for training in trainings]
            wait(running, return_when=FIRST_EXCEPTION)
        finally:
            # After an error, or Ctrl-C, the others would go on to their end.
            for training in trainings:
                training.stopped = True
            torch.set_num_threads(cores)
    return [one.result() for one in running]


def step_losses(steps: Tensor, levels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Binary cross-entropy of being above 0, 1 and 2, (..., 3), from the logits of these `steps` and `levels` (...)."""
    above = (levels[..., None] > torch.arange(LEVELS - 1, device=levels.device)).float()
    above += (0.5 - above) * smoothing
    return functional.binary_cross_entropy_with_logits(steps, above, reduction="none")


def _optimisers(
    groups: list[ParameterGroup], network: SeverityNetwork, recipe: Recipe, steps: int
) -> list[tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]]:
    """AdamW for the dense weights, SparseAdam for the table of subwords; the rates rise shortly, then fall to zero."""
    warm_up = int(recipe.warm_up * steps) + 1

    def share(step: int) -> float:
        return min(1.0, (step + 1) / warm_up) * max(0.0, 1 - step / steps)

    # Fused: the same rule, a little faster.
    optimisers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, weight_decay=recipe.weight_decay, fused=True)]
    if recipe.learns_words:
        optimisers.append(torch.optim.SparseAdam(network.subwords.parameters(), lr=recipe.rate_subwords))
    return [(optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, share)) for optimiser in optimisers]


def _shuffled(
    rows: NDArray[np.int64], lengths: NDArray[np.int64], size: int, random: np.random.Generator
) -> list[NDArray[np.int64]]:
    """`rows` in batches of `size`, in random order; those of one batch have much the same length."""
    order = random.permutation(rows)
    # So many are sorted together that hardly any places are filled up with zeros.
    sorted_together = 64 * size
    found = []
    for start in range(0, len(order), sorted_together):
        stretch = order[start : start + sorted_together]
        stretch = stretch[lengths[stretch].argsort(kind="stable")]
        found += [stretch[at : at + size] for at in range(0, len(stretch), size)]
    return [found[index] for index in random.permutation(len(found))]
