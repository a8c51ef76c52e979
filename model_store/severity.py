"""Texts in, severities out: the one path that training, evaluation and serving share."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model_store import TARGETS
from model_store.classifier import LEVELS, SeverityClassifier, decide
from model_store.encoder import Encoder, Window
from model_store.language import detect_language
from model_store.normalisation import normalise

WINDOWS_AT_ONCE = 32


class Severity(NamedTuple):
    """What the model says of one text: two levels 0..3 and the ISO 639-1 code of its language."""

    depression: int
    anxiety: int
    language: str


class Assessment(NamedTuple):
    """Levels int64 (texts, 2) and probabilities float32 (texts, 2, 4), targets in the order of `TARGETS`."""

    levels: NDArray[np.int64]
    probabilities: NDArray[np.float32]


class SeverityModel:
    """Encoder and classifier, scoring texts."""

    def __init__(self, encoder: Encoder, classifier: SeverityClassifier) -> None:
        self.encoder, self.classifier = encoder, classifier

    def assess(self, texts: Sequence[str]) -> Assessment:
        """Levels and probabilities of each text.

        Of a text of several windows counts, for each target, the window with the highest level,
        so that one severe passage is not thinned out by a long calm rest.
        """
        windows, owners = text_windows(self.encoder, texts)
        probabilities = self._probabilities(windows)
        levels = decide(probabilities)
        # The last of each text's windows when sorted by text, then level, then certainty of that level.
        certainty = np.take_along_axis(probabilities, levels[..., None], axis=-1)[..., 0]
        counted = [np.lexsort((certainty[:, c], levels[:, c], owners)) for c in range(levels.shape[1])]
        last = np.searchsorted(owners, np.arange(len(texts)), side="right") - 1
        rows = np.stack([order[last] for order in counted], axis=1)
        columns = np.arange(levels.shape[1])
        return Assessment(levels[rows, columns], probabilities[rows, columns])

    def _probabilities(self, windows: Sequence[Window]) -> NDArray[np.float32]:
        """A few windows at a time: a long text has hundreds, whose vectors would fill the memory."""
        found = np.empty((len(windows), len(TARGETS), LEVELS), dtype=np.float32)
        for start in range(0, len(windows), WINDOWS_AT_ONCE):
            some = windows[start : start + WINDOWS_AT_ONCE]
            found[start : start + WINDOWS_AT_ONCE] = self.classifier.probabilities(some, self.encoder.embed(some))
        return found

    def score(self, texts: Sequence[str]) -> list[Severity]:
        """One `Severity` per text, in order; an answer does not depend on its neighbours."""
        return [
            Severity(int(depression), int(anxiety), detect_language(text))
            for text, (depression, anxiety) in zip(texts, self.assess(texts).levels, strict=True)
        ]


def text_windows(encoder: Encoder, texts: Sequence[str]) -> tuple[list[Window], NDArray[np.int64]]:
    """The windows of all texts in order, and for each window the number of its text, int64 (windows,)."""
    per_text = [encoder.windows(normalise(text)) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(windows) for windows in per_text])
    return [window for windows in per_text for window in windows], owners
