"""The corpus: synthetic Arabic texts, each with two severity levels.

`corpus.csv` holds it (UTF-8, one header line). Never trained on, in the same format: `benign.csv`, a stress set of
everyday texts that must not alarm; `turned.csv`, contrast pairs in which one target falls to 0 and the heavy words
stay; `varied.csv`, single texts, about as many of every kind but the everyday. `README.md` is the data card of all
four, `validation.py` says what a corpus must not be. The two texts of a contrast pair share an id but for its last
letter, a or b.
"""

import csv
import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from model_store import TARGETS
from model_store.normalisation import LONGEST_TEXT, has_content

CORPUS_FILE = Path(__file__).parent / "corpus.csv"
BENIGN_FILE = Path(__file__).parent / "benign.csv"
TURNED_FILE = Path(__file__).parent / "turned.csv"
VARIED_FILE = Path(__file__).parent / "varied.csv"
VARIETIES = ("msa", "egy", "lev", "glf", "irq", "mgr")
SPLITS = ("train", "test")
# Direct texts; every other kind is a hard case, explained in the data card.
PLAIN_KINDS = ("everyday", "plain")
HARD_KINDS = (
    "idiom",
    "negation",
    "recovered",
    "someone_else",
    "quotation",
    "sarcasm",
    "understated_severe",
    "bodily_ordinary",
    "behaviour_only",
    "positive_words",
    "proportionate_worry",
    "ordinary_sadness",
    "question_or_advice",
    "news",
    "contrast",
)
KINDS = (*PLAIN_KINDS, *HARD_KINDS)
_PAIR_ID = re.compile(r"(.*\d)[ab]")


class CorpusError(ValueError):
    """A corpus file that cannot be used; the message names the line."""


@dataclass(frozen=True)
class Row:
    """One text with its labels, as in one line of the file."""

    id: str
    variety: str
    kind: str
    text: str
    depression: int
    anxiety: int
    split: str

    @property
    def is_hard(self) -> bool:
        """Whether the text is of a kind that misleads a reader of keywords."""
        return self.kind in HARD_KINDS

    @property
    def pair(self) -> str | None:
        """The id shared by the two texts of a contrast pair; None for a single text."""
        match = _PAIR_ID.fullmatch(self.id)
        return match[1] if match else None


COLUMNS = tuple(field.name for field in fields(Row))


def read_corpus(path: Path = CORPUS_FILE, needed: Sequence[str] = COLUMNS) -> list[Row]:
    """Read `path`, in file order. Columns that are not `needed` may be absent: an id is then the line, others empty.

    Raises CorpusError for a missing column or for lines that are not rows, naming every such line,
    and FileNotFoundError when there is no such file.
    """
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorpusError(f"{path.name} line {line}: not UTF-8; nothing was read") from None
    # A DictReader would pass over empty lines.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, errors = [], []
    first = 1
    try:
        header = next(reader, [])
        if missing := [column for column in needed if column not in header]:
            raise CorpusError(f"{path.name}: the header lacks {', '.join(missing)}")
        if twice := [column for column in COLUMNS if header.count(column) > 1]:
            raise CorpusError(f"{path.name}: the header names {', '.join(twice)} more than once")
        first = reader.line_num + 1
        for cells in reader:
            try:
                rows.append(_row(header, cells, f"line {first}"))
            except CorpusError as error:
                errors.append(f"{path.name} {error}")
            first = reader.line_num + 1
    except csv.Error as error:
        errors.append(f"{path.name} line {first}: not CSV ({error}); nothing below it was read")
    if errors:
        raise CorpusError("\n".join(errors))
    return rows


def write_corpus(rows: list[Row], path: Path) -> None:
    """Write `rows` in the format that `read_corpus` reads."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([getattr(row, column) for column in COLUMNS] for row in rows)


def corpus_hash(path: Path = CORPUS_FILE) -> str:
    """SHA-256 of the file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _row(header: Sequence[str], cells: Sequence[str], line: str) -> Row:
    if len(cells) != len(header):
        raise CorpusError(f"{line}: {'not as many columns as the header' if cells else 'empty'}")
    values: dict[str, Any] = {"id": line, **dict.fromkeys(COLUMNS[1:], ""), **dict(zip(header, cells, strict=True))}
    values = {column: values[column] for column in COLUMNS}
    for column, known in (("variety", VARIETIES), ("kind", KINDS)):
        if values[column] and values[column] not in known:
            raise CorpusError(f"{line}, {column}: one of {', '.join(known)}")
    for target in TARGETS:
        if values[target] not in {"0", "1", "2", "3"}:
            raise CorpusError(f"{line}, {target}: a level is 0, 1, 2 or 3")
        values[target] = int(values[target])
    if not has_content(values["text"]) or len(values["text"]) > LONGEST_TEXT:
        raise CorpusError(f"{line}, text: a text has a letter or digit and at most {LONGEST_TEXT:,} characters")
    return Row(**values)
