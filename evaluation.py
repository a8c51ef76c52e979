"""How good predicted levels are: figures beside baselines, as a table and as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score, cohen_kappa_score, confusion_matrix, f1_score, mean_absolute_error
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from corpus import VARIETIES, Row
from model_store import TARGETS
from model_store.normalisation import normalise

LEVEL_NAMES = ("0 none", "1 mild", "2 moderate", "3 severe")
Levels = NDArray[np.int64]


def levels_of(rows: Sequence[Row]) -> Levels:
    """The labels of `rows`, int64 of shape (len(rows), 2): depression, anxiety."""
    return np.array([[row.depression, row.anxiety] for row in rows], dtype=np.int64).reshape(-1, 2)


def quadratic_weighted_kappa(truth: Levels, predicted: Levels) -> float:
    """Cohen's kappa with quadratic weights (Cohen 1968) over the levels 0..3; 1 where nothing can differ."""
    if len(set(truth.tolist()) | set(predicted.tolist())) < 2:
        return 1.0
    return float(cohen_kappa_score(truth, predicted, weights="quadratic", labels=[0, 1, 2, 3]))


def figures(truth: Levels, predicted: Levels) -> dict[str, Any]:
    """All figures of one target, from two int64 arrays of shape (texts,) with levels 0..3."""
    recalls = [
        float((predicted[truth == level] == level).mean()) if (truth == level).any() else None for level in range(4)
    ]
    return {
        "texts": len(truth),
        "qwk": quadratic_weighted_kappa(truth, predicted),
        "mae": float(mean_absolute_error(truth, predicted)),
        "macro_f1": float(f1_score(truth, predicted, average="macro", labels=[0, 1, 2, 3], zero_division=0)),
        "accuracy": float(accuracy_score(truth, predicted)),
        "recall": recalls,
        "severe_seen": float((predicted[truth == 3] >= 2).mean()) if (truth == 3).any() else None,
        "false_alarm": float((predicted[truth == 0] >= 2).mean()) if (truth == 0).any() else None,
    }


def evaluate(rows: Sequence[Row], predicted: Levels) -> dict[str, Any]:
    """Figures of both targets over all rows, per variety and on the hard cases, and of contrast pairs."""
    truth = levels_of(rows)
    subsets = {"all": np.ones(len(rows), dtype=bool), "hard": np.array([row.is_hard for row in rows])}
    subsets |= {variety: np.array([row.variety == variety for row in rows]) for variety in VARIETIES}
    report: dict[str, Any] = {
        target: {
            name: figures(truth[mask, column], predicted[mask, column]) for name, mask in subsets.items() if mask.any()
        }
        for column, target in enumerate(TARGETS)
    }
    report["contrast_pairs_right"] = _pairs_right(rows, (truth == predicted).all(axis=1))
    return report


def _pairs_right(rows: Sequence[Row], right: NDArray[np.bool_]) -> float | None:
    """Share of contrast pairs of which both texts have both levels right."""
    pairs: dict[str, bool] = {}
    for row, is_right in zip(rows, right.tolist(), strict=True):
        if row.pair is not None:
            pairs[row.pair] = pairs.get(row.pair, True) and is_right
    return sum(pairs.values()) / len(pairs) if pairs else None


def baselines(train: Sequence[Row], test: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """What a model must beat: character 2-5-grams with a linear SVM, and always the commonest level."""
    models = {
        "character n-grams": lambda: make_pipeline(
            TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 5), min_df=2, sublinear_tf=True, preprocessor=normalise
            ),
            LinearSVC(C=1.0, random_state=0),
        ),
        "commonest level": lambda: DummyClassifier(strategy="most_frequent"),
    }
    texts, levels = [row.text for row in train], levels_of(train)
    reports = {}
    for name, make in models.items():
        columns = [make().fit(texts, levels[:, column]).predict([row.text for row in test]) for column in range(2)]
        reports[name] = evaluate(test, np.stack(columns, axis=1))
    return reports


def table(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """A Markdown table: one line per model, target and subset of the texts."""
    lines = [
        "| model | target | texts | n | QWK | MAE | macro F1 | accuracy "
        "| recall 0 / 1 / 2 / 3 | 3 seen as 2-3 | 0 seen as 2-3 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for model, report in reports.items():
        for target in TARGETS:
            for subset, f in report[target].items():
                if subset != "all" and model != next(iter(reports)):
                    continue
                recall = " / ".join(_share(value) for value in f["recall"])
                lines.append(
                    f"| {model} | {target} | {subset} | {f['texts']} | {f['qwk']:.3f} | {f['mae']:.3f} "
                    f"| {f['macro_f1']:.3f} | {f['accuracy']:.3f} "
                    f"| {recall} | {_share(f['severe_seen'])} | {_share(f['false_alarm'])} |"
                )
    pairs = [f"{model}: {_share(report['contrast_pairs_right'])}" for model, report in reports.items()]
    return "\n".join([*lines, "", f"Contrast pairs with all four levels right: {', '.join(pairs)}."])


def alarms(shares: Sequence[float]) -> str:
    """A sentence on the everyday texts that were scored 2 or 3; `shares` in the order of `TARGETS`."""
    listed = ", ".join(f"{target} {share:.1%}" for target, share in zip(TARGETS, shares, strict=True))
    return f"Everyday texts of the stress set scored 2 or 3: {listed}."


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def plot_confusion(truth: Levels, predicted: Levels, path: Path) -> None:
    """Draw one confusion matrix per target to the PNG file `path`; rows are the true levels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    for column, (axis, target) in enumerate(zip(axes, TARGETS, strict=True)):
        counts = confusion_matrix(truth[:, column], predicted[:, column], labels=[0, 1, 2, 3])
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for (i, j), count in np.ndenumerate(counts):
            axis.text(
                j,
                i,
                f"{count}\n{shares[i, j]:.0%}",
                ha="center",
                va="center",
                color="white" if shares[i, j] > 0.5 else "black",
            )
        axis.set(title=target, xlabel="predicted", ylabel="true", xticks=range(4), yticks=range(4))
        axis.set_xticklabels(LEVEL_NAMES)
        axis.set_yticklabels(LEVEL_NAMES)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
