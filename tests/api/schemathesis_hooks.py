"""What JSON Schema cannot say: a history is in order, and a new text is not older than it."""

from typing import Any

import schemathesis


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """Put the dates of a generated history in order, so that a valid body stays valid."""
    history = body.get("history") if isinstance(body, dict) else None
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        return body
    dates = [entry.get("date") for entry in history] + [body.get("date")]
    if not all(date is None or isinstance(date, str) for date in dates):
        return body
    ordered = sorted(history, key=lambda entry: entry.get("date") or "")
    last = ordered[-1].get("date") if ordered else None
    newest = max(body["date"], last) if body.get("date") and last else body.get("date")
    return {**body, "history": ordered, **({"date": newest} if "date" in body else {})}
