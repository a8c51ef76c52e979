"""Longitudinal alerts over a history of scores: plain Python, no dependency, no I/O."""

from alerts.rules import find_alerts
from alerts.schemas import Alert, HistoryEntry

__all__ = ["Alert", "HistoryEntry", "find_alerts"]
