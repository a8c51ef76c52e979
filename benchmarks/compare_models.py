"""Compare kinds of models on the same texts: `python -m benchmarks.compare_models` prints a Markdown table.

A sixth of the training texts, whole groups of contrast pairs and near-duplicates, is held back from every model; the
test part is not opened. Where layers were taught, each text, also a held back one, is read by layers that did not
learn from it; only the start of the 7th layer, the mean of four teachings, knows some held back texts. Takes about
forty minutes on two cores.
"""

import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import evaluation
from corpus import Row, read_corpus
from corpus.validation import groups
from model_store import TARGETS
from model_store.classifier import LEVELS, SeverityClassifier, decide
from model_store.encoder import Encoder
from model_store.normalisation import normalise
from model_store.severity import SeverityModel
from train import FAST, embed, in_parts, out_of_fold_encoders
from training.encoding import FOLDS, Bert, adapted, bundled, write_encoder
from training.fitting import Examples, OnVectors, Recipe, side_by_side, step_losses
from training.network import collate, padded, write_classifier

HELD_BACK = 6  # one of so many groups
FOR_KERNEL = 4  # one of so many texts: a kernel machine takes time by the square of their number
WHOLE_ENCODER = 12  # layers
TIMED_TEXTS = 512
BATCH = 32
HEADER = """
| model | depression | hard | anxiety | hard | 0 seen as 2-3 | 3 seen as 2-3 | pairs right | seconds | MB | texts/s |
|---|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    data = Data.of([row for row in read_corpus() if row.split == "train"])
    tqdm.write(f"{len(data.train):,} texts to train on, {len(data.held_back):,} held back\n{HEADER}")
    with tempfile.TemporaryDirectory() as scratch:
        for outcome in outcomes(data, Path(scratch)):
            tqdm.write(line(outcome))


@dataclass(frozen=True)
class Data:
    """The texts, and the numbers of those to train on and of those held back, int64."""

    rows: Sequence[Row]
    train: NDArray[np.int64]
    held_back: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Self:
        """Hold back every sixth group of `rows`."""
        is_held_back = groups(rows) % HELD_BACK == 0
        return cls(rows, np.flatnonzero(~is_held_back), np.flatnonzero(is_held_back))

    def report(self, predicted: evaluation.Levels) -> dict[str, Any]:
        """Figures of the levels int64 (texts held back, 2)."""
        return evaluation.evaluate([self.rows[number] for number in self.held_back], predicted)

    def speed(self, score: Callable[[list[str]], object]) -> float:
        """How many texts a second `score` takes, in batches."""
        texts = [self.rows[number].text for number in self.held_back[:TIMED_TEXTS]]
        started = time.monotonic()
        for start in range(0, len(texts), BATCH):
            score(texts[start : start + BATCH])
        return len(texts) / (time.monotonic() - started)


@dataclass(frozen=True)
class Outcome:
    """What a model came to: its figures on the texts held back, the seconds it took to train without embedding, the
    bytes of all that it reads a text with, and how many texts it reads a second."""

    name: str
    report: dict[str, Any]
    seconds: float
    size: int
    speed: float


def line(outcome: Outcome) -> str:
    """The table's line of `outcome`; where there are two figures, of depression and anxiety."""
    of_targets = [outcome.report[target] for target in TARGETS]
    kappas = [f"{of[subset]['qwk']:.3f}" for of in of_targets for subset in ("all", "hard")]
    shares = [", ".join(f"{of['all'][share]:.3f}" for of in of_targets) for share in ("false_alarm", "severe_seen")]
    pairs = f"{100 * outcome.report['contrast_pairs']['right']:.0f} %"
    costs = [f"{cost:.0f}" for cost in (outcome.seconds, outcome.size / 1e6, outcome.speed)]
    return f"| {' | '.join([outcome.name, *kappas, *shares, pairs, *costs])} |"


def outcomes(data: Data, scratch: Path) -> Iterator[Outcome]:
    """Of all models, as they come; `scratch` is an empty folder."""
    untaught = bundled()
    taught = adapted(untaught)
    yield n_grams(data)
    yield from on_mean_vectors(data, untaught, scratch / "whole")

    ensembles = Ensembles.of(data, untaught, scratch / "frozen")
    yield ensembles.outcome("6 frozen layers, words pooled by attention, linear", FAST)
    yield ensembles.outcome("6 frozen layers, the 7th trained, subwords", Recipe())

    ensembles = Ensembles.of(data, taught, scratch / "taught", out_of_fold_encoders(untaught, scratch))
    yield ensembles.outcome("**6 taught layers, the 7th trained, subwords**", Recipe())
    yield ensembles.outcome("one network, not two", Recipe(members=1))
    yield ensembles.outcome("CORAL, not cross-entropy", Recipe(), Coral)
    yield ensembles.outcome("CORN, not cross-entropy", Recipe(), Corn)
    yield ensembles.outcome("labels softened by distance", Recipe(), SoftLabels)
    yield ensembles.outcome("cross-entropy and squared error of the expected level", Recipe(), SquaredError)


@dataclass(frozen=True)
class Features:
    """What a plain model reads: a row for each text of the data; how a row is made, and the bytes that it takes."""

    rows: NDArray[Any]
    make: Callable[[list[str]], Any]
    size: int


def n_grams(data: Data) -> Outcome:
    """The baseline: what words give away."""
    vectoriser = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 5), min_df=2, sublinear_tf=True, preprocessor=normalise
    )
    model = make_pipeline(vectoriser, MultiOutputClassifier(LinearSVC(random_state=0)))
    texts = Features(np.array([row.text for row in data.rows], dtype=object), list, 0)
    return of_estimator("character 2-5-grams, linear SVM", data, model, texts, data.train)


def on_mean_vectors(data: Data, bert: Bert, folder: Path) -> Iterator[Outcome]:
    """Plain models of the mean vector of a text's words, the whole encoder as it comes."""
    encoder = write_encoder(bert, folder, layers=WHOLE_ENCODER)

    def mean_vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        windows = [encoder.windows(normalise(text))[0] for text in texts]
        return np.stack([words.mean(axis=0) for words in encoder.embed(windows)])

    vectors = [mean_vectors(part) for part in in_parts([row.text for row in data.rows], "embedding")]
    features = Features(np.concatenate(vectors), mean_vectors, size_of(folder))
    heads = {
        "logistic regression": (LogisticRegression(max_iter=1000), data.train),
        "ordinal logistic regression": (OrdinalLogistic(), data.train),
        f"RBF SVM, every {FOR_KERNEL}th text": (SVC(), data.train[::FOR_KERNEL]),
    }
    for name, (head, train) in heads.items():
        model = MultiOutputClassifier(head)
        yield of_estimator(f"12 frozen layers, mean vector, {name}", data, model, features, train)


def of_estimator(name: str, data: Data, model: Any, features: Features, train: NDArray[np.int64]) -> Outcome:
    """Of a scikit-learn `model`, fitted on the texts of the numbers `train`."""
    levels = evaluation.levels_of(data.rows)
    started = time.monotonic()
    model.fit(features.rows[train], levels[train])
    seconds = time.monotonic() - started
    report = data.report(model.predict(features.rows[data.held_back]))
    speed = data.speed(lambda texts: model.predict(features.make(texts)))
    return Outcome(name, report, seconds, features.size + len(pickle.dumps(model)), speed)


class CrossEntropy(OnVectors):
    """As `train.py` does it."""

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Of the levels, (windows, targets, 4), from the network's logits of that shape."""
        return logits.log_softmax(dim=-1)


class Coral(CrossEntropy):
    """CORAL (Cao, Mirjalili & Raschka 2020): of each target one score, and a threshold for each step between levels."""

    def steps(self, logits: Tensor) -> Tensor:
        """The logits of being above 0, above 1 and above 2, (rows, targets, 3)."""
        return logits[..., :1] + self.network.levels.bias.view(len(TARGETS), LEVELS)[:, 1:]

    def level_losses(self, logits: Tensor, levels: Tensor) -> Tensor:
        return step_losses(self.steps(logits), levels).sum(dim=-1)

    def log_probabilities(self, logits: Tensor) -> Tensor:
        return levels_of_steps(self.steps(logits).sigmoid())


class Corn(CrossEntropy):
    """CORN (Shi, Cao & Raschka 2023): the probability of each step between levels, given the step before it."""

    def level_losses(self, logits: Tensor, levels: Tensor) -> Tensor:
        asked = levels[..., None] >= torch.arange(LEVELS - 1, device=levels.device)
        return (step_losses(logits[..., 1:], levels) * asked).sum(dim=-1)

    def log_probabilities(self, logits: Tensor) -> Tensor:
        return levels_of_steps(logits[..., 1:].sigmoid().cumprod(dim=-1))


class SoftLabels(CrossEntropy):
    """Labels softened by distance: a level gets a share by exp(-2 distance) (cf. Diaz & Marathe 2019)."""

    def level_losses(self, logits: Tensor, levels: Tensor) -> Tensor:
        distances = (torch.arange(LEVELS, device=levels.device) - levels[..., None]).abs()
        return -((-2.0 * distances).softmax(dim=-1) * logits.log_softmax(dim=-1)).sum(dim=-1)


class SquaredError(CrossEntropy):
    """Also the squared error of the expected level."""

    def level_losses(self, logits: Tensor, levels: Tensor) -> Tensor:
        expected = logits.softmax(dim=-1) @ torch.arange(float(LEVELS), device=levels.device)
        return super().level_losses(logits, levels) + (expected - levels) ** 2


@dataclass(frozen=True)
class Ensembles:
    """Networks as `train.py` makes them, all on the same vectors of words.

    Attributes:
        bert: gives the layer that theirs start from.
        encoder: that texts would be read with once trained, from the folder of its files.
        embedded: of all texts, the vectors of their words as layers read them that did not learn from the text.
    """

    data: Data
    bert: Bert
    encoder: Encoder
    folder: Path
    examples: Examples
    embedded: Sequence[NDArray[np.float16]]

    @classmethod
    def of(cls, data: Data, bert: Bert, folder: Path, readers: Iterable[Encoder] | None = None) -> Self:
        """Write the encoder to the new `folder`; embed all texts with it, or with one of `readers` for each fold."""
        encoder = write_encoder(bert, folder)
        examples = Examples.of(data.rows, encoder)
        readers = readers or repeat(encoder, len(FOLDS))
        return cls(data, bert, encoder, folder, examples, embed(data.rows, examples.windows, readers))

    def outcome(self, name: str, recipe: Recipe, kind: type[CrossEntropy] = CrossEntropy) -> Outcome:
        """Train by `recipe` with the loss of `kind`."""
        examples, embedded = self.some(self.data.train)
        trainings = [kind(self.bert, examples, recipe, seed, embedded) for seed in range(recipe.members)]
        started = time.monotonic()
        networks = side_by_side(trainings, name)
        seconds = time.monotonic() - started
        report = self.data.report(self.levels(trainings))
        with tempfile.TemporaryDirectory() as folder:
            write_classifier(networks, Path(folder))
            model = SeverityModel(self.encoder, SeverityClassifier.load(Path(folder)))
            size = size_of(Path(folder)) + size_of(self.folder)
            return Outcome(name, report, seconds, size, self.data.speed(model.score))

    def levels(self, trained: Sequence[CrossEntropy]) -> evaluation.Levels:
        """Of the texts held back, decided as the service does."""
        examples, embedded = self.some(self.data.held_back)
        found = []
        for start in range(0, len(embedded), BATCH):
            part = slice(start, start + BATCH)
            batch = collate(examples.windows[part], padded(embedded[part]).float(), trained[0].network.shape.buckets)
            with torch.no_grad():
                logs = [one.log_probabilities(one.network(one.network.pool(batch))) for one in trained]
            found.append(torch.stack(logs).mean(dim=0))
        odds = torch.tensor(trained[0].recipe.odds)
        return decide((torch.cat(found) + odds.log()).softmax(dim=-1).numpy())

    def some(self, numbers: NDArray[np.int64]) -> tuple[Examples, list[NDArray[np.float16]]]:
        """The examples of these numbers, and their vectors."""
        windows = [self.examples.windows[number] for number in numbers]
        examples = Examples(windows, self.examples.levels[numbers], self.examples.kinds[numbers])
        return examples, [self.embedded[number] for number in numbers]


class OrdinalLogistic(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One score and a threshold for each step between levels, with the summed loss of all steps; a little L2."""

    def fit(self, vectors: NDArray[np.float32], levels: NDArray[np.int64]) -> Self:
        self.classes_ = np.arange(LEVELS)
        self.scale_ = vectors.std(axis=0)
        self.score_, self.thresholds_ = nn.Linear(vectors.shape[1], 1), nn.Parameter(torch.tensor([1.0, 0.0, -1.0]))
        weights = [*self.score_.parameters(), self.thresholds_]
        optimiser = torch.optim.LBFGS(weights, max_iter=500, line_search_fn="strong_wolfe")
        truth = torch.from_numpy(levels)

        def loss() -> Tensor:
            optimiser.zero_grad()
            value = step_losses(self._steps(vectors), truth).sum(dim=-1).mean() + 1e-5 * (self.score_.weight**2).sum()
            value.backward()
            return value

        optimiser.step(loss)
        return self

    def predict(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        with torch.no_grad():
            return decide(levels_of_steps(self._steps(vectors).sigmoid()).exp().numpy())

    def _steps(self, vectors: NDArray[np.float32]) -> Tensor:
        scores: Tensor = self.score_(torch.from_numpy(vectors / self.scale_)) + self.thresholds_
        return scores


def levels_of_steps(above: Tensor) -> Tensor:
    """Logarithms of the levels' probabilities (..., 4), from those of being above each level but the last."""
    edges = functional.pad(functional.pad(above, (1, 0), value=1.0), (0, 1), value=0.0)
    return (edges[..., :-1] - edges[..., 1:]).clamp(min=1e-6).log()


def size_of(folder: Path) -> int:
    """Bytes of its files."""
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    main()
