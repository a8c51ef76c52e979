"""Every spelling of the same words becomes one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.normalisation import has_content, is_invisible, normalise


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (
            "\u0623\u0646\u0627 \u0625\u0644\u0649 \u0622\u062e\u0631",
            "\u0627\u0646\u0627 \u0627\u0644\u064a \u0627\u062e\u0631",
        ),
        ("\u0645\u0633\u0624\u0648\u0644", "\u0645\u0633\u0648\u0644"),  # hamza on waw, then two waws become one
        ("\u0634\u0626 \u0634\u064a\u0621", "\u0634\u064a \u0634\u064a"),  # both spellings of "thing"
        ("\u0645\u062f\u0631\u0633\u0629", "\u0645\u062f\u0631\u0633\u0647"),
        ("\u062a\u0639\u0640\u0640\u0640\u0628\u0627\u0646", "\u062a\u0639\u0628\u0627\u0646"),
        ("\u062a\u064e\u0639\u0652\u0628\u064e\u0627\u0646\u064c", "\u062a\u0639\u0628\u0627\u0646"),
        ("\u062a\u0639\u0628\u0627\u0627\u0627\u0627\u0646", "\u062a\u0639\u0628\u0627\u0646"),
        ("\u0643\u062b\u064a\u0631\u0631\u0631\u0631", "\u0643\u062b\u064a\u0631"),
        ("\u0647\u0647\u0647\u0647\u0647\u0647", "\u0647\u0647"),
        (
            "\u0627\u0644\u0644\u0647 \u0627\u0644\u0644\u0644\u0644\u0647",
            "\u0627\u0644\u0644\u0647 \u0627\u0644\u0644\u0647",
        ),
        ("\u0648\u0627\u0644\u0644\u0644\u0644\u064a\u0644", "\u0648\u0627\u0644\u0644\u064a\u0644"),  # "and the night"
        ("\u0642\u0627\u0644\u0644\u0644\u0644", "\u0642\u0627\u0644"),
        ("\u0644\u0644\u0644\u0644\u0647", "\u0644\u0644\u0647"),  # "to Allah"
        ("a\u0621\u0301", "\u00e1"),
        ("\u062d\u0644\u0644\u0644\u0648\u0647\u0647\u0647\u0647", "\u062d\u0644\u0648\u0647"),
        ("\u062a\u0639\u200b\u0628\u200d\u0627\u200f\u0646\ufeff", "\u062a\u0639\u0628\u0627\u0646"),
        ("\ufe97\ufecc\ufe92\ufe8e\ufee5", "\u062a\u0639\u0628\u0627\u0646"),  # presentation forms
        ("\u0661\u0660\u0660\u0660 \u06f3 3", "1000 3 3"),
        ("\u06a9\u0628\u06cc\u0631", "\u0643\u0628\u064a\u0631"),  # keheh and farsi yeh
        ("  a \t\n\u00a0 b  ", "a b"),
        ("\u0644\u0627\u061f\u061f\u061f!!!", "\u0644\u0627?!"),
        ("VERY Tired", "very tired"),
        (
            "\u0627\u0644\u0646\u0628\u064a \ufdfa \u0642\u0627\u0644",
            "\u0627\u0644\u0646\u0628\u064a \u0642\u0627\u0644",
        ),
    ],
)
def test_one_spelling(written: str, plain: str) -> None:
    assert normalise(written) == plain


# Letters, marks and invisible characters that rules turn on; hardly ever drawn from all of Unicode.
_TURNING = (
    "\u0627\u0623\u0621\u0648\u0624\u064a\u0626\u0644\u0647\u0629\u0640"
    "\u064e\u0654\u200d\u034f\u0301\ufdfa\ufefb\u0130aA1\u0661?. "
)


@given(st.text() | st.text(alphabet=_TURNING))
def test_normalising_twice_changes_nothing_and_nothing_invisible_stays(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert not any(is_invisible(character) for character in once)


@pytest.mark.parametrize(
    "text", ["", "   ", "\u200b\u200f", "!!! \U0001f622", "\u3164", "\u0640\u0640", "\u064e", "\n\t"]
)
def test_nothing_to_read(text: str) -> None:
    assert not has_content(text)


@pytest.mark.parametrize("text", ["\u0627", "7", "\u0667", " \u200b x", "\u621a", "a\u064e"])
def test_something_to_read(text: str) -> None:
    assert has_content(text)
