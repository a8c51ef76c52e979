"""Train the severity model: corpus -> encoder -> classifier -> evaluation -> BentoML model store.

Makes two models in the store, `severity-encoder` and `severity-classifier`, and writes the model card with
the evaluation on the held-back texts to `reports/`. Takes five to ten minutes on two cores with AVX-512 BF16, more on
others, less with a GPU; `--fast` makes a plainer and weaker model in under two. Same corpus, code and machine: same
predictions.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import evaluation
from corpus import BENIGN_FILE, CORPUS_FILE, TURNED_FILE, VARIED_FILE, Row, corpus_hash, read_corpus
from corpus.spelling import RESPELLINGS
from corpus.validation import problems
from model_card import CARD_FILE, PICTURES, write_model_card
from model_store import TARGETS
from model_store.classifier import SeverityClassifier
from model_store.encoder import Encoder, Window
from model_store.normalisation import normalise
from model_store.severity import Assessment, SeverityModel
from model_store.store import KNOWN_TEXTS, code_version, save_models
from training.encoding import FOLDS, Bert, adapted, bundled, fold_of, pretrained, write_encoder
from training.fitting import Examples, Recipe, fit
from training.network import write_classifier

# A linear model on the encoder, on every third text.
FAST = Recipe(members=1, epochs=8, reviews=0, learns_words=False)
FAST_SHARE = 3
REPORTS = Path(__file__).parent / "reports"
T = TypeVar("T")


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(command_line)
    with tempfile.TemporaryDirectory(prefix="severity-training-") as made:
        train_and_save(arguments, Path(made))


def train_and_save(arguments: argparse.Namespace, made: Path) -> None:
    """The whole story; `made` is an empty folder for the files of both models and of the encoders on the way."""
    started = time.monotonic()
    rows = read_corpus(arguments.corpus)
    if found := problems(rows):
        raise SystemExit("\n".join(found))
    train = [row for row in rows if row.split == "train"]
    test = [row for row in rows if row.split == "test"]
    if arguments.fast:
        train = train[::FAST_SHARE]
    if constant := [target for target in TARGETS if len({getattr(row, target) for row in train}) == 1]:
        raise SystemExit(f"all texts to train on have the same level of {' and '.join(constant)}: nothing to learn")
    print(f"{len(train)} texts to train on, {len(test)} held back")

    recipe = FAST if arguments.fast else Recipe()
    model = train_model(train, recipe, made, arguments.encoder)
    training_seconds = time.monotonic() - started

    assessed = assess(model, test, "evaluating")
    report = evaluation.evaluate(test, assessed.levels, assessed.probabilities)
    report["alarms"] = evaluation.alarm_shares(assess(model, read_corpus(BENIGN_FILE), "stress set").levels)
    for name, file in {"turned": TURNED_FILE, "varied": VARIED_FILE}.items():
        apart = read_corpus(file)
        report[name] = evaluation.evaluate(apart, assess(model, apart, f"{name} texts").levels)
    report["same_when_respelled"] = same_when_respelled(model, test, assessed.levels)
    print(evaluation.table(report), evaluation.sentences(report), sep="\n\n")

    facts = {
        "classifier": model.classifier.name,
        "embedding_model": model.encoder.name,
        "hyper_parameters": vars(recipe),
        "training_seconds": round(training_seconds),
        "training_texts": len(train),
        "metrics": {target: {"all": report[target]["all"]} for target in TARGETS},
        "known_answers": [[s.depression, s.anxiety] for s in model.score(KNOWN_TEXTS)],
        "corpus_sha256": corpus_hash(arguments.corpus),
        "code_version": code_version(),
        "licences": {
            "code": "Apache-2.0",
            "corpus": "CC-BY-4.0" if arguments.corpus == CORPUS_FILE else "unknown",
            "encoder": "unknown" if arguments.encoder else "MIT",
        },
    }
    write_reports(arguments.reports, report, facts, rows, assessed)
    card = [arguments.reports / name for name in (CARD_FILE, *PICTURES)]
    print("saved {} and {}".format(*save_models(made / "encoder", made / "classifier", facts, card)))


def parse_arguments(command_line: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=CORPUS_FILE, help="a CSV file in the corpus format")
    parser.add_argument("--encoder", help="a Hugging Face id or a local folder instead of the bundled encoder")
    parser.add_argument("--fast", action="store_true", help="a linear model on frozen vectors, from every third text")
    parser.add_argument("--reports", type=Path, default=REPORTS, help="where card and evaluation are written")
    return parser.parse_args(command_line)


def train_model(train: Sequence[Row], recipe: Recipe, folder: Path, encoder_name: str | None = None) -> SeverityModel:
    """Fit the classifier on `train` (of every text its first window); write it and all encoders to `folder`."""
    untaught = pretrained(encoder_name) if encoder_name else bundled()
    bert = untaught if encoder_name else adapted(untaught)
    encoder = write_encoder(bert, folder / "encoder")
    examples = Examples.of(train, encoder)
    readers = repeat(encoder, len(FOLDS)) if encoder_name else out_of_fold_encoders(untaught, folder)
    embedded = embed(train, examples.windows, readers)
    (folder / "classifier").mkdir()
    write_classifier(fit(bert, examples, embedded, recipe), folder / "classifier")
    return SeverityModel(encoder, SeverityClassifier.load(folder / "classifier"))


def out_of_fold_encoders(bert: Bert, folder: Path) -> Iterator[Encoder]:
    """For each fold of the texts the encoder taught by all texts outside it, written to `folder`; one at a time.

    From vectors of texts that its layers know, a classifier learns to trust them too much (cf. Wolpert 1992).
    """
    for fold in FOLDS:
        yield write_encoder(adapted(bert, [fold]), folder / f"reads-fold-{fold}")


def embed(rows: Sequence[Row], windows: Sequence[Window], encoders: Iterable[Encoder]) -> list[NDArray[np.float16]]:
    """The vectors of each row's words, float16 (words, dimensions); `encoders` are in the order of FOLDS.

    In float32 those of the whole corpus would take two gigabytes.
    """
    embedded: dict[int, NDArray[np.float16]] = {}
    for fold, encoder in zip(FOLDS, encoders, strict=True):
        numbers = [number for number, row in enumerate(rows) if fold_of(row) == fold]
        for part in in_parts(numbers, f"embedding, part {fold + 1} of {len(FOLDS)}"):
            vectors = encoder.embed([windows[number] for number in part])
            embedded |= zip(part, (one.astype(np.float16) for one in vectors), strict=True)
    return [embedded[number] for number in range(len(rows))]


def assess(model: SeverityModel, rows: Sequence[Row], label: str) -> Assessment:
    """Levels and probabilities of `rows`, behind a progress bar."""
    parts = [model.assess([row.text for row in part]) for part in in_parts(rows, label)]
    return Assessment(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def same_when_respelled(model: SeverityModel, rows: Sequence[Row], levels: NDArray[np.int64]) -> dict[str, float]:
    """For each way to spell, the share of `rows` that keep their `levels`, int64 (len(rows), 2).

    A text that normalises to the same as before is scored the same; only the others need the model.
    """
    as_read = [normalise(row.text) for row in rows]
    shares = {}
    for way, respelled in RESPELLINGS.items():
        texts = [respelled(row.text) for row in rows]
        others = [n for n, text in enumerate(texts) if normalise(text) != as_read[n]]
        moved = (model.assess([texts[n] for n in others]).levels != levels[others]).any(axis=1)
        shares[way] = 1 - float(moved.sum()) / len(rows)
    return shares


def in_parts(items: Sequence[T], label: str, size: int = 512) -> "tqdm[Sequence[T]]":
    """`items` in order, `size` at a time, behind a progress bar."""
    return tqdm([items[start : start + size] for start in range(0, len(items), size)], desc=label, unit="batch")


def write_reports(
    folder: Path,
    report: dict[str, Any],
    facts: dict[str, Any],
    rows: Sequence[Row],
    assessed: Assessment,
) -> None:
    """Write the figures, the pictures and the model card to `folder`; `assessed` are the test rows of `rows`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "evaluation.json").write_text(json.dumps(report, indent=2), encoding="utf-8")
    truth = evaluation.levels_of([row for row in rows if row.split == "test"])
    evaluation.plot_confusion(truth, assessed.levels, folder / PICTURES[0])
    evaluation.plot_varieties(report, folder / PICTURES[1])
    write_model_card(folder, report, facts, rows)


if __name__ == "__main__":
    main()
