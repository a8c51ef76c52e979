"""Spelling of Arabic, made one: training and serving both read text through `normalise`.

Each rule is one small function; code points are written as escapes, so that
right-to-left display cannot mislead. The order of the rules is part of the rule.
"""

import re
import unicodedata

# Harakat, superscript alef, Quranic marks and the combining hamzas and maddas.
_DIACRITICS = re.compile("[\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed]")
# The grapheme joiner, fillers and variation selectors: letters and marks by their category, yet nothing to see.
_PRINTABLE_BUT_INVISIBLE = re.compile("[\u034f\u115f\u1160\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_HONORIFICS = re.compile("[\ufdfa\ufdfb]")
_TATWEEL = "\u0640"
_ALEF_FORMS = re.compile("[\u0622\u0623\u0625\u0671-\u0673\u0675]")
# Letters of Persian, Urdu and Maghrebi keyboards that stand for an Arabic letter.
_KEYBOARD_FORMS = str.maketrans(
    {
        "\u06cc": "\u064a",  # farsi yeh -> yeh
        "\u06d2": "\u064a",  # yeh barree -> yeh
        "\u06a9": "\u0643",  # keheh -> kaf
        "\u06aa": "\u0643",  # swash kaf -> kaf
        "\u06be": "\u0647",  # heh doachashmee -> heh
        "\u06c1": "\u0647",  # heh goal -> heh
        "\u06d5": "\u0647",  # ae -> heh
        "\u06ad": "\u06af",  # ng, Maghrebi g -> gaf
    }
)
_FINAL_FORMS = str.maketrans({"\u0629": "\u0647", "\u0649": "\u064a"})  # teh marbuta -> heh, alef maksura -> yeh
_HAMZA_SEATS = str.maketrans({"\u0624": "\u0648", "\u0626": "\u064a", "\u0621": None})
_LONG_VOWEL_RUN = re.compile("([\u0627\u0648\u064a])\\1+")
# "Allah", "the night" and the relative pronoun have two lams behind an alef, "to Allah" at its start; a word that is
# nothing but heh is a laugh.
_RUNS_OF_TWO = re.compile(
    "(?<=\u0627)(\u0644)\\1{2,}(?=[\u0647\u064a])|\\b(\u0644)\\2{2,}(?=\u0647\\b)|\\b(\u0647)\\3{2,}\\b"
)
_LETTER_RUN = re.compile("([^\\W\\d_])\\1{2,}")
_MARK_RUN = re.compile(r"([^\w\s])\1+")
_ARABIC_MARKS = str.maketrans({"\u060c": ",", "\u061b": ";", "\u061f": "?", "\u06d4": ".", "\u2026": "."})


def fold_compatibility_forms(text: str) -> str:
    """Presentation forms, ligatures and full-width letters become plain ones (Unicode NFKC).

    The two honorific ligatures go: written out they are 18 and 8 characters that say nothing of a mood.
    """
    return unicodedata.normalize("NFKC", _HONORIFICS.sub(" ", text))


def drop_invisible_characters(text: str) -> str:
    """Zero-width, bidirectional and control characters go; the ones that end a line become a space."""
    if text.isprintable() and not _PRINTABLE_BUT_INVISIBLE.search(text):
        return text  # nearly always, and far sooner than character by character
    return "".join(
        " " if character.isspace() else character
        for character in text
        if character.isspace() or not is_invisible(character)
    )


def drop_diacritics(text: str) -> str:
    """Vowel signs, shadda, sukun, superscript alef and Quranic marks go."""
    return _DIACRITICS.sub("", text)


def drop_tatweel(text: str) -> str:
    """The stroke that only widens a word goes."""
    return text.replace(_TATWEEL, "")


def unify_hamza(text: str) -> str:
    """Alef with hamza, madda or wasla is alef; waw and yeh lose their hamza; a lone hamza goes."""
    return _ALEF_FORMS.sub("\u0627", text).translate(_HAMZA_SEATS)


def unify_letters(text: str) -> str:
    """Foreign keyboards' letters, teh marbuta and alef maksura become the letter they are typed for."""
    return text.translate(_KEYBOARD_FORMS).translate(_FINAL_FORMS)


def unify_digits(text: str) -> str:
    """Every decimal digit of any script becomes an ASCII digit."""
    return re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit[0])), text)


def shorten_elongation(text: str) -> str:
    """A letter held for emphasis is written once, or twice where words have two; a repeated mark once. Digits keep
    their count."""
    text = _LONG_VOWEL_RUN.sub(r"\1", text)
    text = _RUNS_OF_TWO.sub(lambda run: run[0][:2], text)
    text = _LETTER_RUN.sub(r"\1", text)
    return _MARK_RUN.sub(r"\1", text.translate(_ARABIC_MARKS))


def collapse_white_space(text: str) -> str:
    """Runs of white space become one space; none at the ends."""
    return " ".join(text.split())


def normalise(text: str) -> str:
    """Return `text` in the one spelling that the encoder sees.

    Idempotent: ``normalise(normalise(t)) == normalise(t)``. May be empty (a lone hamza).
    """
    text = drop_invisible_characters(fold_compatibility_forms(text))
    text = drop_tatweel(drop_diacritics(text))
    text = unify_digits(unify_letters(unify_hamza(text)))
    # Once more: marks can have come to stand behind letters that they make one with.
    text = fold_compatibility_forms(text)
    return collapse_white_space(shorten_elongation(text.lower()))


def is_invisible(character: str) -> bool:
    """Whether a reader sees nothing: controls, format characters, fillers, variation selectors."""
    return (
        unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn"}
        or _PRINTABLE_BUT_INVISIBLE.match(character) is not None
    )


# As long as the service takes it, and so as long as a text of a corpus may be.
LONGEST_TEXT = 20_000


def has_content(text: str) -> bool:
    """Whether anything in `text` is a letter or digit that a reader can see."""
    return any(c.isalnum() and not is_invisible(c) and c != _TATWEEL for c in text)
