"""How good predicted levels are: figures with their uncertainty, as tables and pictures.

All figures of one target but its calibration follow from its 4x4 confusion matrix (rows the true levels, columns the
predicted), so that a bootstrap over texts is a resampling of matrices.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import VARIETIES, Row
from model_store import TARGETS

LEVEL_NAMES = ("0 none", "1 mild", "2 moderate", "3 severe")
RESAMPLES = 1000
Levels = NDArray[np.int64]
Confusions = NDArray[np.float64]
# What is reported with a 95 % interval.
UNCERTAIN = ("qwk", "severe_seen", "false_alarm")


def levels_of(rows: Sequence[Row]) -> Levels:
    """The labels of `rows`, int64 of shape (len(rows), 2): depression, anxiety."""
    return np.array([[row.depression, row.anxiety] for row in rows], dtype=np.int64).reshape(-1, 2)


def confusion(truth: Levels, predicted: Levels) -> Confusions:
    """Counts of each true and predicted level, shape (..., 4, 4), from levels of shape (..., texts)."""
    cells = truth * 4 + predicted
    counts = [np.bincount(row, minlength=16) for row in cells.reshape(-1, cells.shape[-1])]
    return np.array(counts, dtype=np.float64).reshape(*cells.shape[:-1], 4, 4)


def quadratic_weighted_kappa(confusions: Confusions) -> NDArray[np.float64]:
    """Cohen's kappa with quadratic weights (Cohen 1968) over the levels 0..3; 1 where nothing can differ."""
    weights = np.subtract.outer(np.arange(4), np.arange(4)) ** 2
    by_chance = confusions.sum(-1)[..., :, None] * confusions.sum(-2)[..., None, :]
    expected = (weights * by_chance).sum((-1, -2)) / np.maximum(confusions.sum((-1, -2)), 1)
    observed = (weights * confusions).sum((-1, -2))
    return np.where(expected > 0, 1 - observed / np.where(expected > 0, expected, 1), 1.0)


def measures(confusions: Confusions) -> dict[str, NDArray[np.float64]]:
    """All figures of one target, each of the shape of `confusions` less its last two axes; NaN where undefined.

    Keys: `qwk`, `mae`, `macro_f1`, `accuracy`, `recall_0` .. `recall_3`, `severe_seen` (true 3 scored 2 or 3)
    and `false_alarm` (true 0 scored 2 or 3).
    """
    total = confusions.sum((-1, -2))
    right = np.diagonal(confusions, axis1=-2, axis2=-1)
    true, found = confusions.sum(-1), confusions.sum(-2)
    distance = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    with np.errstate(invalid="ignore", divide="ignore"):
        recalls = right / true
        return {
            "qwk": quadratic_weighted_kappa(confusions),
            "mae": (distance * confusions).sum((-1, -2)) / total,
            "macro_f1": (2 * right / np.maximum(true + found, 1)).mean(-1),
            "accuracy": right.sum(-1) / total,
            **{f"recall_{level}": recalls[..., level] for level in range(4)},
            "severe_seen": confusions[..., 3, 2:].sum(-1) / true[..., 3],
            "false_alarm": confusions[..., 0, 2:].sum(-1) / true[..., 0],
        }


def figures(truth: Levels, predicted: Levels) -> dict[str, Any]:
    """The `measures` of one target, from int64 arrays of shape (texts,), and their 95 % bootstrap intervals."""
    drawn = _draws(len(truth))
    resampled = measures(confusion(truth[drawn], predicted[drawn]))
    found = {name: _number(value) for name, value in measures(confusion(truth, predicted)).items()}
    return {"texts": len(truth), **found, "intervals": {name: _interval(resampled[name]) for name in UNCERTAIN}}


def evaluate(
    rows: Sequence[Row], predicted: Levels, probabilities: NDArray[np.float32] | None = None
) -> dict[str, Any]:
    """Figures of both targets over all rows, per variety and on the hard cases, and of contrast pairs.

    A pair counts as right when both of its texts have both levels right; for one target, among the pairs that
    differ in it, when both texts have its level right.
    With `probabilities`, of shape (len(rows), 2, 4), also each target's expected calibration error, with its interval.
    """
    truth = levels_of(rows)
    subsets = {"all": np.ones(len(rows), dtype=bool), "hard": np.array([row.is_hard for row in rows])}
    subsets |= {variety: np.array([row.variety == variety for row in rows]) for variety in VARIETIES}
    report: dict[str, Any] = {
        target: {
            name: figures(truth[mask, column], predicted[mask, column]) for name, mask in subsets.items() if mask.any()
        }
        for column, target in enumerate(TARGETS)
    }
    right = truth == predicted
    report["contrast_pairs"] = _pairs_right(rows, right.all(axis=1))
    for column, target in enumerate(TARGETS):
        turning = _turning(rows, truth[:, column])
        report["contrast_pairs"][target] = _pairs_right([rows[i] for i in turning], right[turning, column])
    if probabilities is not None:
        report["calibration_error"] = {
            target: _calibration(truth[:, column], probabilities[:, column]) for column, target in enumerate(TARGETS)
        }
    return report


def alarm_shares(predicted: Levels) -> dict[str, Any]:
    """The share of everyday texts scored 2 or 3, for each target, from levels of shape (texts, 2)."""
    found = [figures(np.zeros_like(levels), levels) for levels in predicted.T]
    return {
        target: {"value": of_target["false_alarm"], "interval": of_target["intervals"]["false_alarm"]}
        for target, of_target in zip(TARGETS, found, strict=True)
    }


def _draws(texts: int) -> NDArray[np.int64]:
    """The numbers of the texts in each bootstrap resampling, int64 (RESAMPLES, texts), always the same."""
    return np.random.default_rng(0).integers(texts, size=(RESAMPLES, texts))


def _calibration(truth: Levels, probabilities: NDArray[np.float32]) -> dict[str, Any]:
    """The `calibration_error` and its 95 % bootstrap interval."""
    resampled = [calibration_error(truth[drawn], probabilities[drawn]) for drawn in _draws(len(truth))]
    return {"value": calibration_error(truth, probabilities), "interval": _interval(np.array(resampled))}


def calibration_error(truth: Levels, probabilities: NDArray[np.float32]) -> float:
    """Expected calibration error (Guo et al. 2017) of the likeliest level: the mean gap between the probability
    given to it and the share of times it is right, over ten bins of equal width weighed by their texts."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    bins = np.minimum((confidence * 10).astype(int), 9)
    gaps = [abs(confidence[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in set(bins)]
    return float(sum(gaps))


def _turning(rows: Sequence[Row], levels: NDArray[np.int64]) -> list[int]:
    """The numbers of the rows in contrast pairs whose two texts differ in this target."""
    of_pair: dict[str, set[int]] = {}
    for row, level in zip(rows, levels.tolist(), strict=True):
        if row.pair is not None:
            of_pair.setdefault(row.pair, set()).add(level)
    return [i for i, row in enumerate(rows) if row.pair is not None and len(of_pair[row.pair]) > 1]


def _pairs_right(rows: Sequence[Row], right: NDArray[np.bool_]) -> dict[str, Any]:
    """How many contrast pairs there are, and the share of which both texts are right; half a pair is none."""
    of_pair: dict[str, list[bool]] = {}
    for row, is_right in zip(rows, right.tolist(), strict=True):
        if row.pair is not None:
            of_pair.setdefault(row.pair, []).append(is_right)
    outcomes = np.array([all(both) for both in of_pair.values() if len(both) == 2], dtype=np.float64)
    pairs = len(outcomes)
    if not pairs:
        return {"pairs": 0, "right": None, "interval": None}
    resampled = outcomes[_draws(pairs)].mean(axis=1)
    return {"pairs": pairs, "right": float(outcomes.mean()), "interval": _interval(resampled)}


def table(report: Mapping[str, Any]) -> str:
    """Markdown tables of a report of `evaluate`: a line for each target and subset, and the contrast pairs if any."""
    lines = [
        "| target | texts | n | QWK (95 %) | MAE | macro F1 | accuracy "
        "| recall 0 / 1 / 2 / 3 | 3 seen as 2-3 (95 %) | 0 seen as 2-3 (95 %) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for target in TARGETS:
        for subset, f in report[target].items():
            recall = " / ".join(_share(f[f"recall_{level}"]) for level in range(4))
            qwk, severe, alarm = (f"{_share(f[name], 3)} {_range(f['intervals'][name])}" for name in UNCERTAIN)
            lines.append(
                f"| {target} | {subset} | {f['texts']} | {qwk} | {f['mae']:.3f} | {f['macro_f1']:.3f} "
                f"| {f['accuracy']:.3f} | {recall} | {severe} | {alarm} |"
            )
    pairs = report["contrast_pairs"]
    return "\n".join([*lines, "", *_pairs_table(pairs)] if pairs["pairs"] else lines)


def _pairs_table(pairs: Mapping[str, Any]) -> list[str]:
    """The lines of a Markdown table: the share of contrast pairs that are right."""
    measured = {"all four levels": pairs}
    measured |= {f"both {target} levels, where they differ": pairs[target] for target in TARGETS}
    return ["| contrast pairs | n | right (95 %) |", "|---|---|---|"] + [
        f"| {what} | {f['pairs']} | {_share(f['right'])} {_range(f['interval'])} |" for what, f in measured.items()
    ]


def sentences(report: Mapping[str, Any]) -> str:
    """What stands below the tables of a report: the sets beside the test part, calibration and spelling.

    `report` is one of `evaluate` with `alarms` (of `alarm_shares`), `turned` and `varied` (of `evaluate`, on those
    sets) and `same_when_respelled` (shares by way).
    """
    stress, calibration = (
        ", ".join(f"{target} {found[target]['value']:.3f} {_range(found[target]['interval'], 3)}" for target in TARGETS)
        for found in (report["alarms"], report["calibration_error"])
    )
    varied = {target: report["varied"][target]["all"] for target in TARGETS}
    kappa, severe_seen, false_alarm = (
        ", ".join(f"{target} {found[name]:.3f} {_range(found['intervals'][name])}" for target, found in varied.items())
        for name in UNCERTAIN
    )
    turned = report["turned"]
    zeros = ", ".join(f"{target} {turned[target]['all']['false_alarm']:.3f}" for target in TARGETS)
    pairs = turned["contrast_pairs"]
    same = ", ".join(f"{way} {share:.1%}" for way, share in report["same_when_respelled"].items())
    return "\n\n".join(
        (
            f"Share of everyday texts of the stress set scored 2 or 3: {stress}.",
            f"Of {pairs['pairs']} contrast pairs in which one target falls to 0 though all heavy words stay "
            f"(`corpus/turned.csv`), wholly right: {pairs['right']:.2f} {_range(pairs['interval'])}; "
            f"0 seen as 2-3 there: {zeros}.",
            f"On {varied[TARGETS[0]]['texts']} single texts, about as many of every kind but the everyday "
            f"(`corpus/varied.csv`), kappa: {kappa}; 3 seen as 2-3: {severe_seen}; 0 seen as 2-3: {false_alarm}.",
            f"Expected calibration error of the likeliest level, over ten bins: {calibration}; "
            "resampling makes it greater, and so the interval lies a little too high.",
            f"Share of the texts with the same two levels when they are spelled otherwise: {same}.",
        )
    )


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _interval(values: NDArray[np.float64]) -> list[float] | None:
    return None if np.isnan(values).all() else np.nanpercentile(values, [2.5, 97.5]).round(4).tolist()


def _share(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _range(interval: Sequence[float] | None, digits: int = 2) -> str:
    return "" if interval is None else f"({interval[0]:.{digits}f}-{interval[1]:.{digits}f})"


def plot_confusion(truth: Levels, predicted: Levels, path: Path) -> None:
    """Draw one confusion matrix per target to the PNG file `path`; rows are the true levels."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    for column, (axis, target) in enumerate(zip(axes, TARGETS, strict=True)):
        counts = confusion(truth[:, column], predicted[:, column])
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for (i, j), count in np.ndenumerate(counts):
            colour = "white" if shares[i, j] > 0.5 else "black"
            axis.text(j, i, f"{count:.0f}\n{shares[i, j]:.0%}", ha="center", va="center", color=colour)
        axis.set(title=target, xlabel="predicted", ylabel="true", xticks=range(4), yticks=range(4))
        axis.set_xticklabels(LEVEL_NAMES)
        axis.set_yticklabels(LEVEL_NAMES)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def plot_varieties(report: Mapping[str, Any], path: Path) -> None:
    """Draw the kappa of every variety, with its 95 % interval, to the PNG file `path`."""
    pyplot = _pyplot()
    figure, axis = pyplot.subplots(figsize=(8, 4), layout="constrained")
    subsets = [name for name in report[TARGETS[0]] if name != "all"]
    for offset, target in zip((-0.2, 0.2), TARGETS, strict=True):
        found = [report[target][name] for name in subsets]
        heights = np.array([f["qwk"] for f in found])
        ends = np.array([f["intervals"]["qwk"] for f in found]).T
        axis.bar(np.arange(len(subsets)) + offset, heights, 0.4, label=target, yerr=np.abs(ends - heights), capsize=3)
    axis.set(ylabel="quadratic weighted kappa", ylim=(0, 1), xticks=range(len(subsets)), xticklabels=subsets)
    figure.legend(loc="outside upper center", ncols=2)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
