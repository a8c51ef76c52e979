"""What a corpus must not be: duplicated, leaking over its splits, mislabelled.

`python -m corpus.validation [FILE]` names every problem by id and fails when there is one.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.feature_extraction.text import CountVectorizer

from corpus import CORPUS_FILE, KINDS, SPLITS, VARIETIES, Row, read_corpus
from model_store.graph import usable_cores
from model_store.normalisation import normalise

# Shared character 4-grams over all character 4-grams (Jaccard) at which two texts are much the same.
NEAR_DUPLICATE = 0.5
# So many texts at once are compared with the others, on each core: bounds the memory.
BLOCK = 128


def similar_pairs(texts: Sequence[str], part: NDArray[np.bool_] | None = None) -> Iterator[tuple[int, int]]:
    """Numbers (i, j), i < j, of the texts that are near-duplicates once spelling is made one.

    With `part`, bool (texts,), only those of which one is in the part and the other is not.
    """
    counter = CountVectorizer(analyzer="char_wb", ngram_range=(4, 4), binary=True, preprocessor=normalise)
    grams = counter.fit_transform(texts).astype(np.int32)
    sizes = np.asarray(grams.sum(axis=1)).ravel()
    # Sorted by size: one over 1 / NEAR_DUPLICATE times as large as another cannot share enough with it.
    order = sizes.argsort(kind="stable")
    ones, others = (order, order) if part is None else (order[part[order]], order[~part[order]])
    other_sizes = sizes[others]

    def similar_to(start: int) -> NDArray[np.int64]:
        block = ones[start : start + BLOCK]
        smallest, largest = sizes[block[[0, -1]]]
        # Without parts each two texts are compared once, the one that comes first in order with those behind it.
        first = start if part is None else other_sizes.searchsorted(smallest * NEAR_DUPLICATE)
        last = other_sizes.searchsorted(largest / NEAR_DUPLICATE, side="right")
        candidates = others[first:last]
        shared = (grams[block] @ grams[candidates].T).tocoo()
        found = np.stack([block[shared.row], candidates[shared.col]])
        jaccard = shared.data / (sizes[found].sum(axis=0) - shared.data)
        near = jaccard >= NEAR_DUPLICATE
        if part is None:
            near &= shared.row < shared.col
        numbers: NDArray[np.int64] = np.sort(found[:, near], axis=0)
        return numbers

    # Sparse products let other threads run: a core each.
    with ThreadPoolExecutor(usable_cores()) as pool:
        for found in pool.map(similar_to, range(0, len(ones), BLOCK)):
            yield from zip(*found.tolist(), strict=True)


def groups(rows: Sequence[Row]) -> NDArray[np.int64]:
    """A group number per row, int64 of shape (len(rows),): contrast pairs and near-duplicates share one."""
    links = [*similar_pairs([row.text for row in rows]), *_contrast_pairs(rows)]
    left, right = zip(*links, strict=True) if links else ((), ())
    graph = coo_matrix((np.ones(len(links)), (left, right)), shape=(len(rows), len(rows)))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def problems(rows: Sequence[Row]) -> list[str]:
    """Every reason not to train on `rows`, one sentence each; empty when there is none."""
    if empty := [split for split in SPLITS if not any(row.split == split for row in rows)]:
        return [f"no text has the split {split}" for split in empty]
    return [*_bad_values(rows), *_duplicates(rows), *_pairs(rows), *_leaks(rows)]


def _bad_values(rows: Sequence[Row]) -> Iterator[str]:
    known = {"variety": VARIETIES, "kind": KINDS, "split": SPLITS}
    for row in rows:
        for column, allowed in known.items():
            if getattr(row, column) not in allowed:
                yield f"{row.id}: unknown {column}"
        if row.text != row.text.strip() or "\n" in row.text:
            yield f"{row.id}: white space around the text or a line break in it"


def _duplicates(rows: Sequence[Row]) -> Iterator[str]:
    for name, count in Counter(row.id for row in rows).items():
        if count > 1:
            yield f"{name}: the id stands {count} times"
    first: dict[str, str] = {}
    for row in rows:
        other = first.setdefault(normalise(row.text), row.id)
        if other != row.id:
            yield f"{row.id}: the same text as {other}"


def _pairs(rows: Sequence[Row]) -> Iterator[str]:
    sizes = Counter(row.pair for row in rows if row.pair)
    for row in rows:
        if (row.kind == "contrast") != (row.pair is not None and sizes[row.pair] == 2):
            yield f"{row.id}: contrast texts come in pairs, ids ending in a and b, and only they do"


def _leaks(rows: Sequence[Row]) -> Iterator[str]:
    """Each text with the first one that it is linked to over the splits; a group in both of them has such a link."""
    in_test = np.array([row.split == "test" for row in rows])
    links = similar_pairs([row.text for row in rows], in_test)
    parted = (link for link in _contrast_pairs(rows) if in_test[link[0]] != in_test[link[1]])
    first = {other: one for one, other in sorted({*links, *parted}, reverse=True)}
    for other, one in sorted(first.items()):
        yield f"{rows[other].id} ({rows[other].split}) is much the same as {rows[one].id} ({rows[one].split})"


def _contrast_pairs(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """The numbers of the first text of each contrast pair and of its other one."""
    first: dict[str, int] = {}
    for number, row in enumerate(rows):
        if row.pair is not None and first.setdefault(row.pair, number) != number:
            yield first[row.pair], number


def main() -> int:
    """Check the file named on the command line, or the project's own corpus."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS_FILE
    found = problems(read_corpus(path))
    print("\n".join(found) if found else f"{path.name}: nothing wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
