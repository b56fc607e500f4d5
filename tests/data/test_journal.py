import json
import math
import os
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.journal import JournalWriter, blank_lines, encode_line, read_journal, scan_journal
from robotrl.errors import DataError, StorageError

values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4)
records = st.lists(st.dictionaries(st.text(), values, max_size=3), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("journal") / "journal.jsonl"


def same(left, right) -> bool:
    """Equality by JSON text, in which NaN equals itself."""
    return json.dumps(left) == json.dumps(right)


def test_a_line_is_its_crc_and_its_json():
    line = encode_line({"a": [1, "é"]})
    crc, body = line.rstrip(b"\n").split(b" ", 1)
    assert int(crc, 16) == zlib.crc32(body)
    assert json.loads(body) == {"a": [1, "é"]}


@given(records=records)
@settings(max_examples=30, deadline=None)
def test_any_records_are_read_back(scratch, records):
    scratch.unlink(missing_ok=True)
    writer = JournalWriter(scratch)
    for record in records:
        writer.append(record)
    writer.close()
    stored, end = read_journal(scratch)
    assert same(stored, records)
    assert end == scratch.stat().st_size


@given(records=records, data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_journal_torn_at_any_byte_keeps_every_whole_line_and_takes_new_ones(scratch, records, data):
    lines = [encode_line(record) for record in records]
    content = b"".join(lines)
    torn = content[: data.draw(st.integers(0, len(content)))]
    scratch.write_bytes(torn)
    whole = torn.count(b"\n")
    assert same(read_journal(scratch)[0], records[:whole])
    writer = JournalWriter(scratch)
    assert same(writer.records, records[:whole])
    writer.append({"next": math.nan})
    writer.close()
    assert same(read_journal(scratch)[0], [*records[:whole], {"next": math.nan}])


@given(records=records, data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_flipped_bit_is_an_error_or_costs_only_the_last_line(scratch, records, data):
    content = bytearray(b"".join(map(encode_line, records)))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    scratch.write_bytes(content)
    try:
        stored, _ = read_journal(scratch)
    except DataError as error:
        assert str(scratch) in str(error)
    else:
        assert same(stored, records[:-1])


def test_damage_before_the_end_is_never_cut_away(tmp_path):
    path = tmp_path / "journal.jsonl"
    lines = [encode_line({"n": n}) for n in range(3)]
    content = lines[0] + lines[1].replace(b"1}", b"7}") + lines[2]
    path.write_bytes(content)
    with pytest.raises(DataError, match="line 2 is damaged"):
        JournalWriter(path)
    assert path.read_bytes() == content


def test_an_append_that_was_interrupted_is_undone_by_the_next(tmp_path, monkeypatch):
    writer = JournalWriter(tmp_path / "j")
    writer.append({"n": 0})
    write = os.write

    def interrupted(descriptor, content):
        write(descriptor, bytes(content)[:7])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "write", interrupted)
        writer.append({"n": 1})
    assert read_journal(writer.path)[0] == [{"n": 0}]
    writer.append({"n": 2})
    assert read_journal(writer.path)[0] == [{"n": 0}, {"n": 2}]


def test_a_missing_journal_is_empty(tmp_path):
    assert read_journal(tmp_path / "none.jsonl") == ([], 0)


def test_reading_goes_on_from_an_earlier_end(tmp_path):
    writer = JournalWriter(tmp_path / "j")
    writer.append({"n": 0})
    end = scan_journal(writer.path).end
    assert end == writer.end
    writer.extend([{"n": 1}, {"n": 2}])
    scan = scan_journal(writer.path, end)
    assert [record for _, record in scan.records] == [{"n": 1}, {"n": 2}]
    assert scan.records[0][0] == end


@given(records=records, data=st.data())
@settings(max_examples=30, deadline=None)
def test_damaged_lines_can_be_set_aside_and_no_other_line_moves(scratch, records, data):
    lines = [encode_line(record) for record in records]
    bad = data.draw(st.integers(0, len(lines) - 1))
    content = bytearray(b"".join(lines))
    content[sum(map(len, lines[:bad])) + data.draw(st.integers(0, len(lines[bad]) - 2))] ^= 1
    scratch.write_bytes(content)
    before = scan_journal(scratch)
    assert before.damaged
    blank_lines(scratch, before.damaged)
    after = scan_journal(scratch)
    assert (after.damaged, after.end) == ([], before.end)
    assert same(after.records, before.records)
    assert all(line in scratch.read_bytes() for at, line in enumerate(lines) if at != bad)


def test_a_closed_writer_refuses(tmp_path):
    writer = JournalWriter(tmp_path / "j")
    writer.close()
    writer.close()
    with pytest.raises(StorageError, match="closed"):
        writer.append({})


@given(records=st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=3), garbage=st.binary(min_size=12))
@settings(max_examples=60, deadline=None)
def test_what_no_writer_can_have_left_at_the_end_is_damage_and_is_not_cut_away(scratch, records, garbage):
    garbage = b"~" + garbage.replace(b"\n", b"")
    content = b"".join(map(encode_line, records)) + garbage
    scratch.write_bytes(content)
    for refuse in (read_journal, JournalWriter):
        with pytest.raises(DataError, match=rf"line {len(records) + 1} is damaged"):
            refuse(scratch)
    assert scratch.read_bytes() == content


@given(records=records, zeros=st.integers(0, 5000), data=st.data())
@settings(max_examples=40, deadline=None)
def test_zeros_that_a_power_cut_left_after_the_last_line_are_a_torn_line(scratch, records, zeros, data):
    lines = [encode_line(record) for record in records]
    begun = lines[-1][: data.draw(st.integers(0, len(lines[-1]) - 1))]
    scratch.write_bytes(b"".join(lines[:-1]) + begun + b"\0" * zeros)
    with JournalWriter(scratch) as writer:
        assert same(writer.records, records[:-1])
    assert scratch.read_bytes() == b"".join(lines[:-1])
