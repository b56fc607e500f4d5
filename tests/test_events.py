import math
from datetime import UTC, datetime

import pytest

from robotrl.data.journal import encode_line
from robotrl.errors import DataError
from robotrl.events import STAGE_DONE, EventLog, read_events, stage_results


def test_events_are_numbered_dated_and_kept(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    before = datetime.now(UTC)
    log.append("promoted", {"version": 2, "p": 0.01})
    log.append("refused", {"why": ["too few", None]})
    log.close()
    events = EventLog(tmp_path / "events.jsonl").read()
    assert [(e.index, e.kind) for e in events] == [(0, "promoted"), (1, "refused")]
    assert events[1].payload == {"why": ["too few", None]}
    assert abs((datetime.fromisoformat(events[0].time) - before).total_seconds()) < 5


def test_the_log_can_be_read_while_it_is_written(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    assert read_events(tmp_path / "events.jsonl") == ()
    log.append("one", {})
    assert [e.kind for e in read_events(tmp_path / "events.jsonl")] == ["one"]
    assert read_events(tmp_path / "none.jsonl") == ()


def test_a_payload_is_the_same_before_and_after_a_resume(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    first = log.append("x", {"pair": (1, 2), "nan": math.nan}).payload
    (again,) = read_events(tmp_path / "events.jsonl")
    assert first["pair"] == again.payload["pair"] == [1, 2]
    assert math.isnan(first["nan"]) and math.isnan(again.payload["nan"])


def test_completed_stages_are_a_projection_in_order(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    for stage in ("b", "a"):
        log.append(STAGE_DONE, {"stage": stage, "result": {"of": stage}})
    assert list(stage_results(log.read())) == ["b", "a"]
    assert log.completed("a")["result"] == {"of": "a"}
    assert log.completed("c") is None


def test_a_torn_last_event_is_dropped_and_the_log_goes_on(tmp_path):
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.append("one", {})
    log.append("two", {})
    log.close()
    path.write_bytes(path.read_bytes()[:-5])
    log = EventLog(path)
    log.append("three", {})
    assert [(e.index, e.kind) for e in read_events(path)] == [(0, "one"), (1, "three")]


def test_a_line_that_was_removed_is_noticed(tmp_path):
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    for kind in ("one", "two", "three"):
        log.append(kind, {})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(DataError, match="event 1 has the index 2"):
        read_events(path)


def test_a_foreign_journal_is_refused(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(encode_line({"id": "an episode"}))
    with pytest.raises(DataError, match="index None"):
        EventLog(path)
