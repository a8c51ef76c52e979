"""Spelling does not move a score: of each way to write, at least 99 % of the test part keep their answers."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import bentoml
import pytest

from corpus import read_corpus
from model_store.normalisation import normalise
from model_store.severity import SeverityModel
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, load_models

LETTER = "[\u0621-\u064a]"
FORMS = {  # isolated presentation forms of some letters
    "\u0628": "\ufe8f",
    "\u062d": "\ufea1",
    "\u0633": "\ufeb1",
    "\u0644": "\ufedd",
    "\u0645": "\ufee1",
    "\u0646": "\ufee5",
}


def somewhere(pattern: str, change: Callable[[str], str], share: float = 0.3) -> Callable[[str], str]:
    """A change of about a `share` of all places that match `pattern`, the same places every time."""

    def changed(text: str) -> str:
        chance = random.Random(text)
        return re.sub(pattern, lambda match: change(match[0]) if chance.random() < share else match[0], text)

    return changed


WAYS = {
    "hamza left out": lambda text: text.translate(str.maketrans("\u0623\u0625\u0622", "\u0627\u0627\u0627")),
    "heh for teh marbuta": lambda text: text.replace("\u0629", "\u0647"),
    "yeh and alef maksura": lambda text: re.sub("\u064a\\b", "\u0649", text),
    "tatweel": somewhere(f"{LETTER}(?={LETTER})", lambda letter: letter + "\u0640\u0640"),
    "elongation": somewhere("[\u0627\u0648\u064a]", lambda letter: letter * 4),
    "diacritics": somewhere(LETTER, lambda letter: letter + "\u064e"),
    "zero-width": somewhere(LETTER, lambda letter: letter + "\u200c"),
    "digits": lambda text: text.translate(
        {ord(str(n)): chr(0x660 + n) for n in range(10)} | {0x660 + n: str(n) for n in range(10)}
    ),
    "presentation forms": lambda text: text.translate({ord(k): v for k, v in FORMS.items()}),
}


@pytest.fixture(scope="module")
def model(training: Path) -> SeverityModel:
    model: SeverityModel = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    return model


@pytest.mark.parametrize("way", WAYS)
def test_spelling_does_not_move_a_score(way: str, model: SeverityModel) -> None:
    texts = [row.text for row in read_corpus() if row.split == "test"]
    written = [WAYS[way](text) for text in texts]
    assert sum(a != b for a, b in zip(texts, written, strict=True)) > (20 if way == "digits" else 300)
    # A text that normalises to the same is scored the same; only the others need the model.
    moved = [(a, b) for a, b in zip(texts, written, strict=True) if normalise(a) != normalise(b)]
    if moved:
        before, after = (model.assess(list(side)).levels for side in zip(*moved, strict=True))
        assert (before != after).any(axis=1).sum() <= 0.01 * len(texts)
