"""The alert rules against an oracle written from the contract alone, and by their properties."""

import doctest
import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts import HistoryEntry, find_alerts, rules

levels = st.integers(0, 3)
entries = st.builds(HistoryEntry, levels, levels, st.none() | st.just("2026-03-14"))


def oracle(scores: tuple[int, ...]) -> list[str]:
    """What the contract says of one target's scores, in exact arithmetic and without the code's shortcuts."""
    fired = []
    if len(scores) >= 3:
        *_, a, b, c = scores
        if Fraction(a + b + c, 3) >= 2:
            fired.append("HighScore")
        if (Fraction(b - a) + Fraction(c - b)) / 2 > Fraction(1, 2):
            fired.append("WorseningTrend")
    if len(scores) >= 2 and scores[-1] >= scores[-2] + 2:
        fired.append("SuddenSpike")
    return fired


@pytest.mark.parametrize("target", ["depression", "anxiety"])
def test_every_history_of_up_to_four_entries(target: str) -> None:
    histories = [scores for length in range(5) for scores in itertools.product(range(4), repeat=length)]
    assert len(histories) == 341
    for scores in histories:
        history = [HistoryEntry(s, 0) if target == "depression" else HistoryEntry(0, s) for s in scores]
        found = find_alerts(history)
        assert [alert.type for alert in found] == oracle(scores), scores
        assert all(alert.target == target for alert in found)


@given(st.lists(entries, max_size=12))
def test_targets_do_not_touch_each_other_and_come_in_order(history: list[HistoryEntry]) -> None:
    found = [(alert.target, alert.type) for alert in find_alerts(history)]
    expected = [("depression", kind) for kind in oracle(tuple(e.depression_score for e in history))]
    expected += [("anxiety", kind) for kind in oracle(tuple(e.anxiety_score for e in history))]
    assert found == expected


@given(st.lists(entries, max_size=12), st.lists(entries, max_size=3))
def test_only_the_last_three_entries_matter(older: list[HistoryEntry], newest: list[HistoryEntry]) -> None:
    if len(newest) == 3:
        assert find_alerts([*older, *newest]) == find_alerts(newest)


@given(st.lists(entries, min_size=1, max_size=6))
def test_reasons_hold_the_numbers_and_dates_that_made_the_rule_fire(history: list[HistoryEntry]) -> None:
    for alert in find_alerts(history):
        looked_at = history[-(alert.window or 2) :]
        listed = ", ".join(
            f"{entry.score(alert.target)}" + (f" on {entry.date}" if entry.date else "") for entry in looked_at
        )
        assert f"({listed})" in alert.reason
        assert (alert.window is None) == (alert.type == "SuddenSpike")


def test_examples_in_the_docstrings() -> None:
    result = doctest.testmod(rules)
    assert result.attempted >= 6
    assert result.failed == 0
