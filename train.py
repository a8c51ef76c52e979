"""Train the severity model: corpus -> encoder -> classifier -> evaluation -> BentoML model store.

Makes two models in the store, `severity-encoder` and `severity-classifier`, and writes the
evaluation on the held-back texts to `reports/`. Takes about four minutes on two cores.
Same corpus, code and package versions: same predictions.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import evaluation
from corpus import BENIGN_FILE, CORPUS_FILE, Row, corpus_hash, read_corpus
from corpus.validation import groups, problems
from model_store.classifier import SeverityClassifier
from model_store.encoder import Encoder
from model_store.severity import SeverityModel, embed_texts
from model_store.store import KNOWN_TEXTS, code_version, save_models

SEED = 20
REPORTS = Path(__file__).parent / "reports"


def main(command_line: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(command_line)
    rows = read_corpus(arguments.corpus)
    if found := problems(rows):
        raise SystemExit("\n".join(found))
    arguments.reports.mkdir(parents=True, exist_ok=True)
    train = [row for row in rows if row.split == "train"]
    test = [row for row in rows if row.split == "test"]
    print(f"{len(train)} texts to train on, {len(test)} held back")

    model = train_model(train, arguments.encoder)
    encoder, classifier = model.encoder, model.classifier

    predicted = predict(model, test, "evaluating")
    report = evaluation.evaluate(test, predicted)
    report["benign_alarms"] = (predict(model, read_corpus(BENIGN_FILE), "stress set") >= 2).mean(axis=0).tolist()
    write_report(arguments.reports, report, train, test, predicted)

    encoder_tag, classifier_tag = save_models(
        encoder,
        classifier,
        {
            "classifier": classifier.name,
            "embedding_model": encoder.name,
            "hyper_parameters": classifier.hyper_parameters,
            "metrics": {target: report[target]["all"] for target in ("depression", "anxiety")},
            "known_answers": [[s.depression, s.anxiety] for s in model.score(KNOWN_TEXTS)],
            "corpus_sha256": corpus_hash(arguments.corpus),
            "code_version": code_version(),
            "licences": {
                "code": "Apache-2.0",
                "corpus": "CC-BY-4.0" if arguments.corpus == CORPUS_FILE else "unknown",
                "encoder": "unknown" if arguments.encoder else "MIT",
            },
        },
    )
    print(f"saved {encoder_tag} and {classifier_tag}")


def parse_arguments(command_line: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=CORPUS_FILE, help="a CSV file in the corpus format")
    parser.add_argument("--encoder", help="a Hugging Face id or a local folder instead of the bundled encoder")
    parser.add_argument("--reports", type=Path, default=REPORTS, help="where the evaluation is written")
    return parser.parse_args(command_line)


def train_model(train: Sequence[Row], encoder_name: str | None = None) -> SeverityModel:
    """Embed `train` (of every text its first window) and fit the classifier on the embeddings."""
    encoder = Encoder.from_pretrained(encoder_name) if encoder_name else Encoder.default()
    parts = []
    for texts in in_parts(train, "embedding"):
        embeddings, owners = embed_texts(encoder, texts)
        parts.append(embeddings[np.unique(owners, return_index=True)[1]])
    print("choosing hyper-parameters by grouped cross-validation")
    levels = evaluation.levels_of(train)
    return SeverityModel(encoder, SeverityClassifier.fit(np.concatenate(parts), levels, groups(train), SEED))


def predict(model: SeverityModel, rows: Sequence[Row], label: str) -> evaluation.Levels:
    """Levels of `rows`, int64 of shape (len(rows), 2), behind a progress bar."""
    return np.concatenate([model.levels(texts) for texts in in_parts(rows, label)])


def in_parts(rows: Sequence[Row], label: str, size: int = 256) -> "tqdm[list[str]]":
    """The texts of `rows` in order, `size` at a time, behind a progress bar."""
    parts = [[row.text for row in rows[start : start + size]] for start in range(0, len(rows), size)]
    return tqdm(parts, desc=label, unit="batch")


def write_report(
    folder: Path, report: dict[str, Any], train: Sequence[Row], test: Sequence[Row], predicted: evaluation.Levels
) -> None:
    """Print the table, and write it with all figures and the confusion matrices to `folder`."""
    reports = {"encoder + svm-rbf": report, **evaluation.baselines(train, test)}
    text = evaluation.table(reports) + "\n" + evaluation.alarms(report["benign_alarms"])
    print(text)
    (folder / "evaluation.md").write_text(text + "\n", encoding="utf-8")
    (folder / "evaluation.json").write_text(json.dumps(reports, indent=2), encoding="utf-8")
    evaluation.plot_confusion(evaluation.levels_of(test), predicted, folder / "confusion.png")


if __name__ == "__main__":
    main()
