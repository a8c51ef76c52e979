"""Anyone's labelled file is scored by the served model, and a bad line is named before anything is scored."""

from pathlib import Path

import pytest

import evaluate
from corpus import Row, write_corpus
from tests.conftest import Server


def test_a_file_is_scored_over_http(
    server: Server, corpus_slice: list[Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row for row in corpus_slice if row.split == "test"][:40]
    write_corpus(rows, tmp_path / "own.csv")
    evaluate.main([str(tmp_path / "own.csv"), "--url", server.url])
    assert "| depression | all | 40 |" in capsys.readouterr().out


def test_served_answers_equal_the_offline_evaluation(
    server: Server, corpus_slice: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row for row in corpus_slice if row.split == "test"]
    served = evaluate.served_levels(server.url, rows)
    evaluate.compare_with_stored_model(rows, served)
    assert f"All {len(rows)} served answers" in capsys.readouterr().out
    served[7] = (served[7] + 1) % 4
    with pytest.raises(SystemExit, match=f"differ on 1 texts: {rows[7].id}"):
        evaluate.compare_with_stored_model(rows, served)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("text,depression,anxiety\nكلام,0,0\nكلام,four,0\n", "own.csv line 3, depression: a level is 0, 1, 2 or 3"),
        ("text,depression,anxiety,variety\nكلام,0,0,EGY\n", "own.csv line 2, variety: one of msa, egy"),
        ("text,depression,anxiety,kind\nكلام,0,0,\nكلام,0,0,tweet\n", "own.csv line 3, kind: one of everyday, plain"),
        ("text,depression,anxiety\nكلام,0,0\n\nكلام,0,0\n", "own.csv line 3: empty"),
        ("text,depression\nكلام,0\n", "own.csv: the header lacks anxiety"),
        ("text,depression,anxiety\n", "own.csv: no text below the header"),
    ],
)
def test_a_bad_file_is_refused_by_line(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "own.csv").write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit, match=complaint):
        evaluate.main([str(tmp_path / "own.csv"), "--url", "http://127.0.0.1:9"])


def test_a_refused_text_is_named_without_its_words(server: Server) -> None:
    row = Row("line 2", "", "", "لا" * 20_000, 0, 0, "")
    with pytest.raises(SystemExit, match="line 2: 400") as refusal:
        evaluate.served_levels(server.url, [row])
    assert "لا" not in str(refusal.value)
