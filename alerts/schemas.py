"""What the alert rules read and what they say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Target = Literal["depression", "anxiety"]
AlertType = Literal["HighScore", "WorseningTrend", "SuddenSpike"]
TARGETS: tuple[Target, ...] = ("depression", "anxiety")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """The scores of one day: two levels 0..3 and, where known, the ISO date."""

    depression_score: int
    anxiety_score: int
    date: str | None = None

    def score(self, target: Target) -> int:
        """The level of `target`."""
        return self.depression_score if target == "depression" else self.anxiety_score


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule that fired for one target.

    `window` is the number of entries the rule looks at; None on a sudden spike.
    """

    type: AlertType
    target: Target
    reason: str
    window: int | None = None


History = Sequence[HistoryEntry]
