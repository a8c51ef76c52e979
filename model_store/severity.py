"""Texts in, severities out: the one path that training, evaluation and serving share."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model_store.classifier import SeverityClassifier
from model_store.encoder import Encoder
from model_store.language import detect_language
from model_store.normalisation import normalise


class Severity(NamedTuple):
    """What the model says of one text: two levels 0..3 and the ISO 639-1 code of its language."""

    depression: int
    anxiety: int
    language: str


def embed_texts(encoder: Encoder, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Embeddings of all windows of all texts, and for each window the number of its text.

    Shapes: float32 (windows, dimensions) and int64 (windows,); windows >= len(texts).
    """
    per_text = [encoder.windows(normalise(text)) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(windows) for windows in per_text])
    return encoder.embed([window for windows in per_text for window in windows]), owners


class SeverityModel:
    """Encoder and classifier, scoring texts."""

    def __init__(self, encoder: Encoder, classifier: SeverityClassifier) -> None:
        self.encoder, self.classifier = encoder, classifier

    def levels(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Levels 0..3, int64 of shape (len(texts), 2): depression, anxiety.

        A text of several windows gets the highest level of any of them for each target,
        so that one severe passage is not thinned out by a long calm rest.
        """
        embeddings, owners = embed_texts(self.encoder, texts)
        levels = np.zeros((len(texts), 2), dtype=np.int64)
        if len(texts):
            np.maximum.at(levels, owners, self.classifier.predict(embeddings))
        return levels

    def score(self, texts: Sequence[str]) -> list[Severity]:
        """One `Severity` per text, in order; an answer does not depend on its neighbours."""
        return [
            Severity(int(depression), int(anxiety), detect_language(text))
            for text, (depression, anxiety) in zip(texts, self.levels(texts), strict=True)
        ]
