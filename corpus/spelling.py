"""Ways to spell the same words, as people do: none of them may move a score."""

import random
import re
from collections.abc import Callable

Respelling = Callable[[str], str]
_LETTER = "[\u0621-\u064a]"
# The presentation forms of some letters, as a letter stands alone.
_ISOLATED_FORMS = str.maketrans("\u0628\u062d\u0633\u0644\u0645\u0646", "\ufe8f\ufea1\ufeb1\ufedd\ufee1\ufee5")
_OTHER_DIGITS = {ord(str(n)): chr(0x660 + n) for n in range(10)} | {0x660 + n: str(n) for n in range(10)}
_BARE_ALEFS = str.maketrans("\u0623\u0625\u0622", "\u0627\u0627\u0627")
_BARE_SEATS = str.maketrans({"\u0624": "\u0648", "\u0626": "\u064a", "\u0621": None})


def _somewhere(pattern: str, change: Respelling, share: float = 0.3) -> Respelling:
    """A change of about a `share` of all places that match `pattern`, the same places each time for the same text."""

    def respelled(text: str) -> str:
        chance = random.Random(text)
        return re.sub(pattern, lambda match: change(match[0]) if chance.random() < share else match[0], text)

    return respelled


RESPELLINGS: dict[str, Respelling] = {
    "alef without hamza": lambda text: text.translate(_BARE_ALEFS),
    "other letters without hamza": lambda text: text.translate(_BARE_SEATS),
    "heh for teh marbuta": lambda text: text.replace("\u0629", "\u0647"),
    "alef maksura for final yeh": lambda text: re.sub("\u064a\\b", "\u0649", text),
    "tatweel": _somewhere(f"{_LETTER}(?={_LETTER})", lambda letter: letter + "\u0640\u0640"),
    "elongated vowels": _somewhere("[\u0627\u0648\u064a]", lambda letter: letter * 4),
    "elongated letters of any kind": _somewhere(_LETTER, lambda letter: letter * 4, share=0.05),
    "diacritics": _somewhere(_LETTER, lambda letter: letter + "\u064e"),
    "zero-width characters": _somewhere(_LETTER, lambda letter: letter + "\u200c"),
    "other digits": lambda text: text.translate(_OTHER_DIGITS),
    "presentation forms": lambda text: text.translate(_ISOLATED_FORMS),
}
