"""Shortcuts that a model could take through the corpus: words and lengths that give a level away.

`python -m corpus.shortcuts [FILE]` prints them for the training part, as Markdown for the data card.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import GroupKFold, cross_val_predict

from corpus import CORPUS_FILE, VARIETIES, Row, read_corpus
from corpus.validation import groups
from model_store import TARGETS
from model_store.normalisation import normalise

# "A little" in the six varieties, once spelling is made one.
SOFTENERS = (
    "\u0634\u0648\u064a",
    "\u0634\u0648\u064a\u0647",
    "\u0642\u0644\u064a\u0644\u0627",
    "\u0634\u0648\u064a\u0627",
)
SHOWN = 8


def blind_kappa(rows: Sequence[Row], target: str) -> float:
    """Quadratic weighted kappa, over five grouped folds, of a model that sees only length and punctuation."""
    features = np.array([_length_and_punctuation(row.text) for row in rows])
    truth = np.array([getattr(row, target) for row in rows])
    model = HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, random_state=0)
    predicted = cross_val_predict(model, features, truth, cv=GroupKFold(5), groups=groups(rows))
    return float(cohen_kappa_score(truth, predicted, weights="quadratic"))


def telling_grams(rows: Sequence[Row], target: str, analyzer: str, sizes: tuple[int, int]) -> dict[int, list[str]]:
    """For each level the n-grams most typical of it, by the z-score of their log-odds with an informative
    Dirichlet prior (Monroe, Colaresi & Quinn 2008)."""
    counter = CountVectorizer(analyzer=analyzer, ngram_range=sizes, min_df=20, binary=True, preprocessor=normalise)
    counts = counter.fit_transform([row.text for row in rows])
    names = counter.get_feature_names_out()
    levels = np.array([getattr(row, target) for row in rows])
    prior = np.asarray(counts.sum(axis=0)).ravel()
    return {
        level: [str(names[index]) for index in np.argsort(-_log_odds(counts, levels == level, prior))[:SHOWN]]
        for level in range(4)
    }


def softener_shares(rows: Sequence[Row], target: str) -> list[float]:
    """For each level the share of texts with a word for "a little"."""
    has = np.array([bool(set(SOFTENERS) & set(re.findall(r"\w+", normalise(row.text)))) for row in rows])
    levels = np.array([getattr(row, target) for row in rows])
    return [float(has[levels == level].mean()) for level in range(4)]


def _log_odds(counts: NDArray[np.int64], inside: NDArray[np.bool_], prior: NDArray[np.int64]) -> NDArray[np.float64]:
    here = np.asarray(counts[inside].sum(axis=0)).ravel() + prior
    there = np.asarray(counts[~inside].sum(axis=0)).ravel() + prior
    odds = np.log(here / (here.sum() - here)) - np.log(there / (there.sum() - there))
    scores: NDArray[np.float64] = odds / np.sqrt(1 / here + 1 / there)
    return scores


def _length_and_punctuation(text: str) -> list[float]:
    words = text.split()
    marks = [text.count(mark) for mark in ".,!?:;\u060c\u061b\u061f\u2026\u00ab\n"]
    return [len(text), len(words), float(np.mean([len(word) for word in words])), *marks]


def main() -> None:
    """Print the tables for the file named on the command line, or the project's own corpus."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS_FILE
    rows = [row for row in read_corpus(path) if row.split == "train"]
    for target in TARGETS:
        print(f"\n### {target}\n\nLength and punctuation alone: kappa {blind_kappa(rows, target):.2f}.")
        print(
            "Variety alone:",
            *(f"{v} {np.mean([getattr(r, target) for r in rows if r.variety == v]):.2f}" for v in VARIETIES),
        )
        print("\n| level | words | pieces of words | texts with \u201ca little\u201d |\n|---|---|---|---|")
        words = telling_grams(rows, target, "word", (1, 2))
        pieces = telling_grams(rows, target, "char_wb", (3, 5))
        for level, share in enumerate(softener_shares(rows, target)):
            print(f"| {level} | {'، '.join(words[level])} | {'، '.join(pieces[level])} | {share:.1%} |")


if __name__ == "__main__":
    main()
