"""Adapts the encoder to texts about mood and keeps the change in `adapter.npz`.

`train.py` takes the encoder's layers as they come out of here. The lower ones learn, end to end beneath one network
of the classifier, a change of low rank to every matrix (LoRA, Hu et al. 2022) and a plain one to every bias and
normalisation. Of that network only the change of its layer is kept, cut to the same rank, as the start of the
classifier's own. This is done four times, each time with all training texts but another fourth, and the mean of the
four changes is taken. The classifier learns from each text as lower layers read it that were taught without it (out of
fold). `python -m training.adapt` goes on from what the file holds, so that texts which joined the corpus since are
learned too (and every run teaches once more), or begins where there is no file: in minutes on a GPU, on two cores with
AVX-512 BF16 in over an hour, or in over two from the beginning, in more on others. Only a corpus that has grown much
calls for it.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from corpus import CORPUS_FILE, Row, read_corpus
from corpus.validation import problems
from model_store.encoder import Window
from training.encoding import (
    ADAPTER_FILE,
    FOLDS,
    LOWER_LAYERS,
    Bert,
    Changes,
    bundled,
    fold_of,
    read_changes,
    with_mean_of,
    write_encoder,
)
from training.fitting import DEVICE, SEED, Examples, ParameterGroup, Recipe, Training, in_bfloat16
from training.network import Dropout, Shape, WordLayer, padded, present, unchanged

RANK = 16
# Of the network above, whatever the classifier's own may come to be. `ADAPTER_FILE` was made by the first from 45,511
# texts, and by the second from 64,432.
FROM_THE_BEGINNING = Recipe(
    epochs=2,
    reviews=2,
    reviewed=0.5,
    batch_texts=64,
    rate_layer=1.4e-3,
    rate_head=2.8e-3,
    rate_subwords=7e-3,
    dropout=0.3,
)
GOING_ON = replace(FROM_THE_BEGINNING, epochs=1, reviews=1, reviewed=0.35)
# The highest learning rate of the topmost lower layer; each layer below gets a tenth less than the one above it.
LOWER_RATE, RATE_SHARE = 1.4e-3, 0.9
LOWER_DROPOUT = 0.1


def main(command_line: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=CORPUS_FILE, help="a CSV file in the corpus format")
    parser.add_argument(
        "--to", type=Path, default=ADAPTER_FILE, help="the file to write, and to go on from where it is there"
    )
    arguments = parser.parse_args(command_line)
    rows = read_corpus(arguments.corpus)
    if found := problems(rows):
        raise SystemExit("\n".join(found))
    train = [row for row in rows if row.split == "train"]
    bert = bundled()
    go_on = arguments.to.exists()
    print(f"going on from {arguments.to}" if go_on else "beginning with the encoder as it comes")
    taught = read_changes(arguments.to) if go_on else {fold: {} for fold in FOLDS}
    recipe = GOING_ON if go_on else FROM_THE_BEGINNING
    changes: dict[str, NDArray[np.float16]] = {}
    for fold in FOLDS:
        print(f"without part {fold + 1} of {len(FOLDS)}")
        learned = adapt(bert, [row for row in train if fold_of(row) != fold], recipe, taught[fold])
        changes |= {f"{fold}/{name}": change for name, change in learned.items()}
    with arguments.to.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **changes)
    print(f"wrote {arguments.to}")


def adapt(bert: Bert, rows: Sequence[Row], recipe: Recipe, taught: Changes) -> dict[str, NDArray[np.float16]]:
    """What the lower layers of `bert` and the next one learn of `rows` after they were `taught` so much, both together.

    As `read_changes` gives it, in float16: of a matrix the two factors of its change, or of the nearest one of rank
    `RANK`.
    """
    with tempfile.TemporaryDirectory(prefix="severity-adapting-") as folder:
        encoder = write_encoder(bert, Path(folder) / "encoder")
        examples = Examples.of(rows, encoder)
        # The same for all folds: the mean of several changes is of use only where they began alike.
        torch.manual_seed(SEED)
        start = with_mean_of(bert, [taught])
        lower = LowerLayers(start, encoder.pieces, taught).to(DEVICE)
        training = _Adaptation(start, examples, recipe, SEED, lower)
        with tqdm(total=recipe.steps(len(rows)), desc="adapting", unit="step") as progress:
            network = training.run(progress)
    changes: dict[str, NDArray[np.float16]] = {}
    for number, layer in enumerate([*lower.merged(), network.layer]):
        before = bert.layer(number)
        for name, values in layer.state_dict().items():
            changes |= _change(f"encoder.layer.{number}.{name}", values.cpu().numpy() - before[name])
    return changes


def _change(name: str, difference: NDArray[np.float32]) -> dict[str, NDArray[np.float16]]:
    """How `difference`, of the weight `name`, is kept."""
    if difference.ndim == 1:
        return {name: difference.astype(np.float16)}
    left, sizes, right = np.linalg.svd(difference, full_matrices=False)
    up, down = left[:, :RANK] * sizes[:RANK], right[:RANK]
    return {f"{name}.up": up.astype(np.float16), f"{name}.down": down.astype(np.float16)}


class LowRank(nn.Module):
    """A linear map whose matrix stays as it is, and beside it a change of low rank that learns and is zero at first."""

    def __init__(self, kept: nn.Linear) -> None:
        super().__init__()
        self.kept = kept
        kept.weight.requires_grad_(False)
        self.up = nn.Parameter(torch.zeros(kept.out_features, RANK))
        # Twice as large as the rows of one that keeps lengths: the scale of 2 that LoRA is often given.
        self.down = nn.Parameter(torch.randn(RANK, kept.in_features) * (4 / kept.in_features) ** 0.5)

    @torch.no_grad()
    def go_on_from(self, up: Tensor, down: Tensor) -> None:
        """Let the change `up @ down`, which is in the matrix already, learn on."""
        self.kept.weight -= up @ down
        # `_change` makes the rows of `down` 1 long; here they begin 2 long.
        self.up.copy_(up / 2)
        self.down.copy_(down * 2)

    def forward(self, rows: Tensor) -> Tensor:
        # In one matrix with the change, a step takes a seventh longer, for a gradient of all of it that nobody needs.
        return self.kept(rows) + functional.linear(functional.linear(rows, self.down), self.up)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The map with the change added for good."""
        self.kept.weight += self.up @ self.down
        return self.kept


class LowerLayers(nn.Module):
    """The encoder that `training.encoding.write_encoder` writes down, with layers that learn.

    `bert` has been `taught` already; what it was taught of low rank learns on.
    """

    def __init__(self, bert: Bert, pieces: NDArray[np.float16], taught: Changes) -> None:
        super().__init__()
        self.pieces, self.positions = pieces, torch.from_numpy(bert.positions())
        shape = Shape.above(bert)
        self.norm = nn.LayerNorm(shape.dimensions, eps=bert.epsilon).requires_grad_(False)
        scale_and_shift = {
            part: torch.tensor(bert.weights[f"embeddings.LayerNorm.{part}"]) for part in ("weight", "bias")
        }
        self.norm.load_state_dict(scale_and_shift)
        self.layers = nn.ModuleList(WordLayer(shape).take(bert.layer(number)) for number in range(LOWER_LAYERS))
        self._replace(nn.Linear, LowRank)
        for name, part in self.layers.named_modules():
            weight = f"encoder.layer.{name}.weight"
            if isinstance(part, LowRank) and f"{weight}.up" in taught:
                part.go_on_from(*(torch.from_numpy(taught[f"{weight}.{factor}"]) for factor in ("up", "down")))

    def forward(self, windows: Sequence[Window], dropout: Callable[[Tensor], Tensor] = unchanged) -> Tensor:
        """The vectors of the words, float32 (windows, words, dimensions), zero where a window has no more words."""
        rows, seen, shares = (part.to(DEVICE) for part in self._start(windows))
        rows = self.norm(rows)
        with in_bfloat16():
            for layer in self.layers:
                rows = layer(rows, seen, dropout)
        return shares @ rows.float()

    def merged(self) -> nn.ModuleList:
        """The layers, once what was learned is added to each matrix for good."""
        self._replace(LowRank, LowRank.merged)
        return self.layers

    def _replace(self, kind: type[nn.Module], other: Callable[[Any], nn.Module]) -> None:
        """Put `other` of it in the place of every part of the layers that is of such a kind."""
        for parent in list(self.layers.modules()):
            for name, part in list(parent.named_children()):
                if isinstance(part, kind):
                    setattr(parent, name, other(part))

    def _start(self, windows: Sequence[Window]) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of the first layer, which tokens there are, and the share of each token in each word's mean."""
        rows = padded([self.pieces[window.ids].astype(np.float32) for window in windows])
        tokens = rows.shape[1]
        seen = present([len(window.ids) for window in windows])
        shares = torch.zeros(len(windows), max(len(window.words) for window in windows), tokens)
        for at, window in enumerate(windows):
            for word, (start, end) in enumerate(pairwise([*window.starts, len(window.ids)])):
                shares[at, word, start:end] = 1 / (end - start)
        return rows + self.positions[:tokens], seen, shares


@dataclass
class _Adaptation(Training):
    """The training of a network together with the layers below it."""

    lower: LowerLayers

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lower_dropout = Dropout(LOWER_DROPOUT, self.dropout.generator)

    def states(self, rows: NDArray[np.int64]) -> Tensor:
        vectors: Tensor = self.lower([self.examples.windows[row] for row in rows], self.lower_dropout)
        return vectors

    def parameter_groups(self) -> list[ParameterGroup]:
        below = [
            {"params": [p for p in layer.parameters() if p.requires_grad], "lr": LOWER_RATE * RATE_SHARE**depth}
            for depth, layer in enumerate(reversed(self.lower.layers))
        ]
        return [*super().parameter_groups(), *below]


if __name__ == "__main__":
    main()
