"""The corpus is sound, and the validator names what would make it unsound."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from corpus import (
    BENIGN_FILE,
    HARD_KINDS,
    SPLITS,
    TURNED_FILE,
    VARIED_FILE,
    VARIETIES,
    CorpusError,
    Row,
    read_corpus,
    write_corpus,
)
from corpus.shortcuts import blind_kappa, softener_shares, telling_grams
from corpus.validation import NEAR_DUPLICATE, problems, similar_pairs
from model_store import TARGETS
from model_store.normalisation import normalise

GOOD = Row("egy-1", "egy", "plain", "مش قادر أقوم من السرير بقالي أسبوع", 2, 0, "train")
OTHER = Row("lev-1", "lev", "everyday", "رحنا عالسوق واشترينا خضرا وفواكه للعيد", 0, 0, "test")
# Of each level, about: what the corpus was written for.
WANTED_SHARES = {0: 0.32, 1: 0.20, 2: 0.26, 3: 0.22}
PAIR = [
    replace(GOOD, id="egy-2a", kind="contrast", text="خايفة أنزل الشارع لوحدي كل يوم"),
    replace(GOOD, id="egy-2b", kind="contrast", text="مبقتش خايفة أنزل الشارع لوحدي خلاص"),
]


def test_the_corpus_is_sound_and_as_large_as_its_card_says() -> None:
    rows = read_corpus()
    assert problems(rows) == []
    card = (BENIGN_FILE.parent / "README.md").read_text(encoding="utf-8")
    assert f"{len(rows):,} texts in `corpus.csv`" in card
    assert len({row.pair for row in rows if row.pair}) >= 400
    assert sum(row.split == "test" for row in rows) >= 900
    everyday = [row for row in rows if row.kind == "everyday" and row.depression == row.anxiety == 0]
    assert len(everyday) >= 0.12 * len(rows)
    for variety in VARIETIES:
        of_variety = [row for row in rows if row.variety == variety]
        assert len(of_variety) >= 800
        pairs = Counter((row.depression, row.anxiety) for row in of_variety)
        assert len(pairs) == 16
        assert min(pairs.values()) >= 0.03 * len(of_variety)
        assert sum(row.is_hard for row in of_variety) >= 0.35 * len(of_variety)
        assert {row.split for row in of_variety} == set(SPLITS)
        assert sum(row.split == "test" for row in of_variety) >= 150
        for target in TARGETS:
            levels = Counter(getattr(row, target) for row in of_variety)
            assert all(abs(levels[level] / len(of_variety) - share) < 0.08 for level, share in WANTED_SHARES.items())


def test_all_near_duplicates_are_found() -> None:
    wholes = [row.text for row in read_corpus()[::120]]
    texts = [part for text in wholes for part in (text, text[: len(text) * 2 // 3], text[len(text) // 2 :])]
    grams_of = CountVectorizer(analyzer="char_wb", ngram_range=(4, 4), preprocessor=normalise).build_analyzer()
    grams = [set(grams_of(text)) for text in texts]
    near = {
        (i, j)
        for (i, one), (j, other) in combinations(enumerate(grams), 2)
        if len(one & other) >= NEAR_DUPLICATE * len(one | other) > 0
    }
    found = list(similar_pairs(texts))
    assert len(found) == len(set(found)) > len(wholes) / 2
    assert set(found) == near
    part = np.arange(len(texts)) % 5 == 0
    assert sorted(similar_pairs(texts, part)) == sorted((i, j) for i, j in near if part[i] != part[j])


def test_the_sets_beside_it_are_apart_from_the_corpus() -> None:
    benign = read_corpus(BENIGN_FILE)
    assert len(benign) >= 300
    assert {(row.kind, row.depression, row.anxiety) for row in benign} == {("everyday", 0, 0)}
    turned = read_corpus(TURNED_FILE)
    pairs: dict[str | None, list[Row]] = {}
    for row in turned:
        pairs.setdefault(row.pair, []).append(row)
    assert len(pairs) >= 300
    for one, other in pairs.values():
        (turning,) = [target for target in TARGETS if getattr(one, target) != getattr(other, target)]
        lower, higher = sorted((getattr(one, turning), getattr(other, turning)))
        assert lower == 0
        assert higher >= 2
    varied = read_corpus(VARIED_FILE)
    assert {row.kind for row in varied} == {"plain", *HARD_KINDS} - {"contrast"}
    assert min(Counter((row.variety, row.depression) for row in varied).values()) >= 12
    assert problems([*(replace(row, split="train") for row in read_corpus()), *benign, *turned, *varied]) == []


def test_shortcuts_are_found() -> None:
    words = {0: "شمس", 1: "غيم", 2: "مطر", 3: "رعد"}
    random = Random(0)
    rows = []
    for n in range(200):
        padding = " ".join(str(random.randrange(10**6)) for _ in range(10 * (n % 4)))
        rows.append(replace(GOOD, id=f"egy-{n}", text=f"{words[n % 4]} {padding} {n}", depression=n % 4))
    assert telling_grams(rows, "depression", "word", (1, 1))[3][0] == "رعد"
    assert blind_kappa(rows, "depression") > 0.9
    softened = [replace(row, text="تعبت شويّة، عادي") if row.depression == 1 else row for row in rows]
    assert softener_shares(softened, "depression") == [0, 1, 0, 0]


def test_a_leaking_text_is_named_once_with_the_first_that_it_is_like() -> None:
    again = replace(GOOD, id="egy-8", text=GOOD.text + " كامل")
    leak = replace(GOOD, id="egy-9", text=GOOD.text + " كله", split="test")
    assert problems([GOOD, again, leak]) == ["egy-9 (test) is much the same as egy-1 (train)"]


def test_a_corpus_needs_both_splits() -> None:
    assert problems([GOOD]) == ["no text has the split test"]
    assert problems([]) == ["no text has the split train", "no text has the split test"]


def test_a_sound_corpus_has_no_problems() -> None:
    assert problems([GOOD, OTHER, *PAIR]) == []


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([GOOD, replace(OTHER, id="egy-1")], "egy-1: the id stands 2 times"),
        ([GOOD, replace(GOOD, id="egy-9")], "egy-9: the same text as egy-1"),
        (
            [GOOD, replace(GOOD, id="egy-9", text="مش قادر اقووووم من السرير بقالى اسبوع")],
            "egy-9: the same text as egy-1",
        ),
        (
            [GOOD, replace(GOOD, id="egy-9", text=GOOD.text + " كامل", split="test")],
            "egy-9 (test) is much the same as egy-1",
        ),
        ([PAIR[0], replace(PAIR[1], split="test")], "egy-2b (test) is much the same as egy-2a (train)"),
        ([PAIR[0]], "egy-2a: contrast texts come in pairs"),
        ([replace(GOOD, kind="contrast")], "egy-1: contrast texts come in pairs"),
        ([replace(GOOD, variety="sud")], "egy-1: unknown variety"),
        ([replace(GOOD, kind="odd")], "egy-1: unknown kind"),
        ([replace(GOOD, split="dev")], "egy-1: unknown split"),
        ([replace(GOOD, text=" كلام ")], "egy-1: white space"),
    ],
)
def test_problems_are_named(rows: list[Row], complaint: str) -> None:
    fillers = [
        replace(GOOD, id="f-1", text="شريت خبز من الفرن"),
        replace(OTHER, id="f-2", text="الجو حار والطريق زحمة"),
    ]
    assert any(problem.startswith(complaint) for problem in problems([*rows, *fillers]))


def test_written_and_read_it_is_the_same(tmp_path: Path) -> None:
    rows = [GOOD, replace(OTHER, text='قال "لا", ثم مشى')]
    write_corpus(rows, tmp_path / "c.csv")
    assert read_corpus(tmp_path / "c.csv") == rows


HEADER = "id,variety,kind,text,depression,anxiety,split\n"


@pytest.mark.parametrize(
    ("content", "complaints"),
    [
        ("id,text\n", ["c.csv: the header lacks variety, kind, depression, anxiety, split"]),
        (
            HEADER + "a,egy,plain,x,1\na,egy,plain,x,1,5,train\na,egy,plain,x,1,1,train\na,egy,plain,؟!,1,1,train\n",
            [
                "c.csv line 2: not as many columns as the header",
                "c.csv line 3, anxiety: a level is 0, 1, 2 or 3",
                "c.csv line 5, text: a text has a letter or digit and at most 20,000 characters",
            ],
        ),
        (HEADER + 'a,egy,plain,"x', ["c.csv line 2: not CSV (unexpected end of data); nothing below it was read"]),
        (HEADER + 'a,egy,plain,"x\ny",1,9,train\n\n', ["c.csv line 2, anxiety: a level is 0, 1, 2 or 3"]),
        ("text," + HEADER, ["c.csv: the header names text more than once"]),
    ],
)
def test_every_bad_line_is_named(tmp_path: Path, content: str, complaints: list[str]) -> None:
    (tmp_path / "c.csv").write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError) as error:
        read_corpus(tmp_path / "c.csv")
    assert str(error.value).splitlines() == complaints


def test_bytes_that_are_not_utf_8_are_named_by_their_line(tmp_path: Path) -> None:
    lines = [HEADER, *("a,egy,plain,تمام,1,1,train\n" for _ in range(3000))]
    data = "".join(lines).encode("utf-8").splitlines(keepends=True)
    data[2500] = "a,egy,plain,تمام,1,1,train\n".encode("cp1256")
    (tmp_path / "c.csv").write_bytes(b"".join(data))
    with pytest.raises(CorpusError, match=r"c\.csv line 2501: not UTF-8; nothing was read"):
        read_corpus(tmp_path / "c.csv")


def test_columns_that_are_not_needed_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("anxiety,text,depression\n1,تمام,0\n", encoding="utf-8-sig")
    (row,) = read_corpus(tmp_path / "c.csv", needed=("text", "depression", "anxiety"))
    assert row == Row("line 2", "", "", "تمام", 0, 1, "")
