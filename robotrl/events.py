"""The event log of a run: what happened, in order, once. The state of a run is a projection of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from robotrl.data.journal import JSON, JournalWriter, read_journal
from robotrl.errors import DataError

STAGE_STARTED = "stage_started"
STAGE_DONE = "stage_done"


@dataclass(frozen=True)
class Event:
    """One event: its place in the log, when (UTC, ISO 8601), what kind, and its particulars."""

    index: int
    time: str
    kind: str
    payload: Mapping[str, Any]


def read_events(path: Path) -> tuple[Event, ...]:
    """All whole events of the log, also while a run is writing it; none if there is no file."""
    records, _ = read_journal(path)
    return tuple(_event(path, place, record) for place, record in enumerate(records))


def stage_results(events: tuple[Event, ...]) -> dict[str, Mapping[str, Any]]:
    """Stage name → payload of the event that completed it (`result`, `wall_s`, `cpu_s`), in the order of completion."""
    return {event.payload["stage"]: event.payload for event in events if event.kind == STAGE_DONE}


class EventLog:
    """Appends events to one file; for the process that holds the run."""

    def __init__(self, path: Path) -> None:
        self._journal = JournalWriter(path)
        self._events = [_event(path, place, record) for place, record in enumerate(self._journal.records)]

    def append(self, kind: str, payload: Mapping[str, JSON]) -> Event:
        """Append an event; it is durable on return. The payload is kept as JSON gives it back (tuples become lists)."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        event = Event(len(self._events), now, kind, json.loads(json.dumps(payload)))
        self._journal.append({"index": event.index, "time": event.time, "kind": kind, "payload": event.payload})
        self._events.append(event)
        return event

    def read(self) -> tuple[Event, ...]:
        """All events so far."""
        return tuple(self._events)

    def completed(self, stage: str) -> Mapping[str, Any] | None:
        """Payload of the event that completed the stage, or None."""
        return stage_results(self.read()).get(stage)

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._journal.close()


def _event(path: Path, place: int, record: Mapping[str, Any]) -> Event:
    if record.get("index") != place:
        raise DataError(f"{path}: event {place} has the index {record.get('index')}: a line was removed or repeated")
    return Event(record["index"], record["time"], record["kind"], record["payload"])
