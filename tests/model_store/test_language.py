"""Languages are told apart on short texts, dialects are Arabic, and mixtures go by the larger script."""

import pytest

from model_store.language import detect_language

TEXTS = {
    "ar": [
        "لا أستطيع النوم",
        "مش قادر انام",
        "شلونك شخبارك",
        "بزاف عليا هاد الخدمة",
        "كيفك اليوم",
        "هسه اجي",
        "برشا خدمة",
    ],
    "fa": ["خیلی خسته‌ام", "امروز هوا خوب است", "من دلم گرفته", "فردا امتحان دارم"],
    "ur": ["آپ کیسے ہیں", "مجھے نیند نہیں آتی", "زندگی سے تنگ ہوں", "مجھے ڈر لگتا ہے"],
    "en": ["I am tired", "the weather is nice", "feeling down today"],
    "fr": ["je suis fatigué", "comment ça va", "il fait beau aujourd'hui"],
}


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in TEXTS.items() for text in texts])
def test_short_texts(code: str, text: str) -> None:
    assert detect_language(text) == code


@pytest.mark.parametrize("text", ["123", "١٢٣ 456", "2026-11-21", "؟!", "😊😊"])
def test_nothing_to_tell(text: str) -> None:
    assert detect_language(text) == "und"


@pytest.mark.parametrize(
    ("text", "code"),
    [("انا really تعبان من الشغل", "ar"), ("I wrote سلام to my friend yesterday", "en"), ("تعبان 100% اليوم", "ar")],
)
def test_the_script_with_more_letters_decides(text: str, code: str) -> None:
    assert detect_language(text) == code
