"""The three alert rules. Each looks at the newest entries only: an alert speaks of now.

A rule takes a history, oldest entry first, and a target; it returns an `Alert` when it
fires and None when it does not or when there are too few entries to tell.
"""

from alerts.schemas import TARGETS, Alert, History, HistoryEntry, Target

WINDOW = 3
HIGH_AVERAGE = 2
STEEP_INCREASE = 0.5
SPIKE = 2


def high_score(history: History, target: Target) -> Alert | None:
    """Fires when the mean score of the last 3 entries is at least 2.

    Why: a level that stays moderate or worse over several entries is a state, not a bad day.
    Trade: three entries forgive one outlier but stay silent until there are three; a mean of 2
    lets (1, 2, 3) fire and (1, 2, 2) not. A lower mean would fire on people who are steadily mild.

    >>> history = [HistoryEntry(2, 0), HistoryEntry(1, 0), HistoryEntry(3, 0)]
    >>> high_score(history, "depression").reason
    'The average depression score of the last 3 entries (2, 1, 3) is 2.00, which is at least 2.'
    >>> high_score(history, "anxiety") is None
    True
    """
    recent = history[-WINDOW:]
    scores = [entry.score(target) for entry in recent]
    if len(recent) < WINDOW or sum(scores) < HIGH_AVERAGE * WINDOW:
        return None
    reason = (
        f"The average {target} score of the last {WINDOW} entries {_listed(recent, target)} "
        f"is {sum(scores) / WINDOW:.2f}, which is at least {HIGH_AVERAGE}."
    )
    return Alert("HighScore", target, reason, WINDOW)


def worsening_trend(history: History, target: Target) -> Alert | None:
    """Fires when the score rises by more than 0.5 a step, on average over the last 3 entries.

    Why: a rise that goes on shows someone getting worse before any single level is high.
    The mean of the two steps is (last - first) / 2, so the middle entry does not count.
    Trade: a total rise of 1 over three entries is 0.5 a step and stays silent, since neighbouring
    levels are easily confused; a rise of 2 is not.

    >>> worsening_trend([HistoryEntry(0, 0), HistoryEntry(1, 0), HistoryEntry(2, 0)], "depression").reason
    'The depression score rose by 1.00 a step on average over the last 3 entries (0, 1, 2), which is more than 0.5.'
    >>> worsening_trend([HistoryEntry(1, 0), HistoryEntry(1, 0), HistoryEntry(2, 0)], "depression") is None
    True
    """
    recent = history[-WINDOW:]
    if len(recent) < WINDOW:
        return None
    increase = (recent[-1].score(target) - recent[0].score(target)) / (WINDOW - 1)
    if increase <= STEEP_INCREASE:
        return None
    reason = (
        f"The {target} score rose by {increase:.2f} a step on average over the last {WINDOW} entries "
        f"{_listed(recent, target)}, which is more than {STEEP_INCREASE}."
    )
    return Alert("WorseningTrend", target, reason, WINDOW)


def sudden_spike(history: History, target: Target) -> Alert | None:
    """Fires when the last step alone is a rise of at least 2.

    Why: a jump from none to moderate, or mild to severe, deserves a look at once.
    Trade: two entries are enough, so it is the fastest rule and the one most at the mercy of a
    single wrong score; a step of 1 is within what the classifier mistakes and never fires.

    >>> sudden_spike([HistoryEntry(0, 1, "2026-03-01"), HistoryEntry(0, 3, "2026-03-02")], "anxiety").reason
    'The anxiety score rose by 2 between the last two entries (1 on 2026-03-01, 3 on 2026-03-02), which is at least 2.'
    >>> sudden_spike([HistoryEntry(0, 3), HistoryEntry(0, 1)], "anxiety") is None
    True
    """
    recent = history[-2:]
    if len(recent) < 2:
        return None
    rise = recent[1].score(target) - recent[0].score(target)
    if rise < SPIKE:
        return None
    reason = (
        f"The {target} score rose by {rise} between the last two entries "
        f"{_listed(recent, target)}, which is at least {SPIKE}."
    )
    return Alert("SuddenSpike", target, reason)


RULES = (high_score, worsening_trend, sudden_spike)


def find_alerts(history: History) -> list[Alert]:
    """All alerts that hold at the newest entry, depression before anxiety, then in the order of `RULES`.

    >>> [(alert.type, alert.target) for alert in find_alerts([HistoryEntry(0, 0), HistoryEntry(1, 2)])]
    [('SuddenSpike', 'anxiety')]
    """
    found = (rule(history, target) for target in TARGETS for rule in RULES)
    return [alert for alert in found if alert is not None]


def _listed(entries: History, target: Target) -> str:
    return f"({', '.join(_dated_score(entry, target) for entry in entries)})"


def _dated_score(entry: HistoryEntry, target: Target) -> str:
    return str(entry.score(target)) + (f" on {entry.date}" if entry.date else "")
