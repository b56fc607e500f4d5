"""What is found and put right after crashes and damage: verify, recover, and opening a dead writer's directory."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robotrl.data.pack import pack_store
from robotrl.data.recover import recover_store
from robotrl.data.store import EpisodeStore
from robotrl.data.verify import verify_store
from robotrl.errors import DataError
from tests import builders
from tests.contracts.store import EPISODES, LINEAGE, assert_same, ones

IDS = [e.meta.episode_id for e in EPISODES]


@pytest.fixture
def store(tmp_path):
    """All episodes of one writer."""
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    with store.writer() as writer:
        for episode in EPISODES:
            writer.on_episode(episode)
    return store


@pytest.fixture
def directory(store) -> Path:
    return store.root / "writers" / "w0"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def problems(store: EpisodeStore) -> list[str]:
    """Findings as "severity path problem", paths from the store on."""
    return [f"{f.severity} {f.path.relative_to(store.root)}: {f.problem}" for f in verify_store(store)]


def assert_holds(store: EpisodeStore, places: list[int]) -> None:
    snapshot = EpisodeStore.open(store.root).snapshot()
    assert snapshot.ids == tuple(IDS[p] for p in places)
    for place, stored in zip(places, snapshot.episodes(), strict=True):
        assert_same(EPISODES[place], stored)


def test_an_intact_store_has_no_findings_packed_or_not(store):
    store.annotate("labels", "1", {IDS[0]: ones(EPISODES[0])}, LINEAGE)
    assert problems(store) == []
    pack_store(store)
    assert problems(store) == []
    assert recover_store(store.root).repairs == ()


def test_verify_goes_on_after_the_first_finding_and_names_each_file(store, directory):
    store.annotate("labels", "1", {IDS[0]: ones(EPISODES[0])}, LINEAGE)
    for place in (0, 1):
        flip(directory / f"episodes/{IDS[place]}.zarr.zip", 3000)
    (directory / f"episodes/{IDS[2]}.zarr.zip").unlink()
    annotation = store.root / "annotations/labels/1.zarr.zip"
    flip(annotation, annotation.read_bytes().index(np.ones(20, np.float32).tobytes()))
    (store.root / "notes.txt").write_text("mine")
    (store.root / "writers/not a writer").mkdir()
    (directory / "staging/half").write_bytes(b"half")
    (directory / "episodes/readme.md").write_text("")
    found = problems(store)
    for expected in (
        f"error writers/w0/episodes/{IDS[0]}.zarr.zip",
        f"error writers/w0/episodes/{IDS[1]}.zarr.zip",
        f"error writers/w0/episodes/{IDS[2]}.zarr.zip",
        "error annotations/labels/1.zarr.zip",
        "warning notes.txt",
        "warning writers/not a writer",
        "warning writers/w0/staging/half",
        "warning writers/w0/episodes/readme.md",
    ):
        assert sum(line.startswith(expected) for line in found) == 1, (expected, found)
    assert len(found) == 8


def test_what_a_live_writer_is_busy_with_is_no_finding(store, directory):
    with store.writer():
        (directory / "staging/half").write_bytes(b"half")
        assert problems(store) == []
        report = recover_store(store.root)
        assert (report.busy, report.repairs) == (("w0",), ())
        assert (directory / "staging/half").exists()


def test_every_flipped_bit_of_an_episode_is_found_or_harmless(store, directory):
    path = directory / f"episodes/{IDS[0]}.zarr.zip"
    content = path.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(content), 25):
        flip(path, int(at))
        assert any(path.name in line for line in problems(store)), at
        path.write_bytes(content)
    assert problems(store) == []


def test_odd_values_are_kept_and_reported(store, caplog):
    state = EPISODES[0].state.copy()
    state[3, 1] = 17.0
    time_ns = EPISODES[0].time_ns.copy()
    time_ns[5:] -= 10**9
    odd = replace(EPISODES[0], state=state, time_ns=time_ns, meta=replace(EPISODES[0].meta, episode_id="odd"))
    with store.writer() as writer:
        writer.on_episode(odd)
    for text in (caplog.text, "\n".join(problems(store))):
        assert "time_ns does not grow at 1 ticks, first at tick 4" in text
        assert "'joint.1' leaves [-3, 3] rad at 1 of 21 rows, first 17 at row 3" in text


def test_a_joint_that_gives_way_at_its_stop_is_nothing_odd(store):
    state, action = EPISODES[0].state.copy(), EPISODES[0].action.copy()
    low, high = store.spec.state.low[1], store.spec.state.high[1]
    state[3, 1] = high + 0.04 * (high - low)
    bent = replace(EPISODES[0], state=state, meta=replace(EPISODES[0].meta, episode_id="bent"))
    action[2, 0] = store.spec.action.high[0] + 0.04 * (store.spec.action.high[0] - store.spec.action.low[0])
    asked = replace(EPISODES[0], action=action, meta=replace(EPISODES[0].meta, episode_id="asked"))
    with store.writer() as writer:
        writer.on_episode(bent)
        writer.on_episode(asked)
    assert [line for line in problems(store) if "bent" in line] == []
    assert [line for line in problems(store) if "asked" in line]


def test_an_episode_of_another_environment_that_was_copied_in_is_quarantined(store, directory, tmp_path):
    other = EpisodeStore.create(tmp_path / "other", builders.spec(task="pick_place"))
    foreign = builders.episode(5, seed=9, takeover=None)
    fingerprint = other.spec.fingerprint
    with other.writer() as writer:
        writer.on_episode(replace(foreign, meta=replace(foreign.meta, task="pick_place", environment=fingerprint)))
    (source,) = other.root.glob("writers/w0/episodes/*")
    shutil.copy(source, directory / "episodes")
    assert [line for line in problems(store) if "no journal line names it" in line]
    (repair,) = recover_store(store.root).repairs
    assert "moved to quarantine" in repair.action and "the store holds 'insert'" in repair.action
    assert (directory / "quarantine" / source.name).exists()
    assert_holds(store, [0, 1, 2, 3])


def test_recover_hides_what_is_damaged_keeps_it_and_lets_it_be_committed_again(store, directory):
    flip(directory / f"episodes/{IDS[1]}.zarr.zip", 3000)
    (directory / f"episodes/{IDS[2]}.zarr.zip").unlink()
    planned = recover_store(store.root, dry_run=True)
    assert len(problems(store)) == 2
    report = recover_store(store.root)
    assert report.repairs == planned.repairs
    assert [r.path.name for r in report.repairs] == [f"{IDS[1]}.zarr.zip", f"{IDS[2]}.zarr.zip"]
    assert (directory / f"quarantine/{IDS[1]}.zarr.zip").exists()
    assert_holds(store, [0, 3])
    assert problems(store) == []
    assert recover_store(store.root).repairs == ()
    with store.writer() as writer:
        for episode in EPISODES:
            writer.on_episode(episode)
    assert_holds(store, [0, 1, 2, 3])
    assert problems(store) == []


def test_a_damaged_member_of_a_segment_is_hidden_and_the_others_stay(store, directory):
    pack_store(store)
    entry = store.snapshot().entries[1]
    flip(entry.path, entry.offset + 3000)
    assert [line for line in problems(store) if f"episode {IDS[1]}" in line]
    assert len(recover_store(store.root).repairs) == 1
    assert (directory / f"quarantine/{IDS[1]}.zarr.zip").stat().st_size == entry.size
    assert_holds(store, [0, 2, 3])
    pack_store(store)
    assert_holds(store, [0, 2, 3])
    assert problems(store) == []


def test_a_segment_without_its_directory_is_read_reported_and_written_anew(store):
    pack_store(store)
    (path,) = {entry.path for entry in store.snapshot().entries}
    flip(path, path.stat().st_size - 20)
    assert_holds(store, [0, 1, 2, 3])
    assert [line for line in problems(store) if "segment" in line]
    pack_store(store)
    assert problems(store) == []
    assert_holds(store, [0, 1, 2, 3])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("line", range(5))
def test_a_damaged_journal_line_costs_no_episode(store, directory, packed, line):
    if packed:
        pack_store(store)
    path = directory / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    if line >= len(lines):
        pytest.skip("only a packed store has a fifth line")
    before = store.snapshot().offsets
    flip(path, sum(map(len, lines[:line])) + 40)
    for refused in (EpisodeStore.open(store.root).snapshot, store.writer):
        with pytest.raises(DataError, match=rf"line {line + 1} is damaged.*robotrl data recover"):
            refused()
    assert [text for text in problems(store) if "damaged" in text]
    planned = recover_store(store.root, dry_run=True)
    assert planned.failed == ()
    assert recover_store(store.root).failed == ()
    assert (directory / "quarantine").exists()
    assert_holds(store, [0, 1, 2, 3])
    assert problems(store) == []
    assert len(store.snapshot(before)) >= len(EPISODES) - 1


def test_a_torn_line_is_cut_and_reported(store, directory):
    path = directory / "journal.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    assert [line for line in problems(store) if "never finished" in line]
    actions = [r.action for r in recover_store(store.root).repairs]
    assert "never finished" in actions[0] and "taken up" in actions[1]
    assert path.read_bytes() == content


def emptied(content: bytes) -> bytes:
    return b""


def overwritten(content: bytes) -> bytes:
    return np.random.default_rng(0).bytes(len(content))


def overwritten_without_a_line_end(content: bytes) -> bytes:
    return overwritten(content).replace(b"\n", b"\r")


def ended_by_garbage(content: bytes) -> bytes:
    return content[:-50] + b"\xff" * 50


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("damage", [None, emptied, overwritten, overwritten_without_a_line_end, ended_by_garbage])
def test_a_journal_that_is_lost_is_told_and_costs_no_episode(store, directory, caplog, packed, damage):
    if packed:
        pack_store(store)
    path = directory / "journal.jsonl"
    content = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage(content))
    try:
        assert len(EpisodeStore.open(store.root).snapshot()) == 0
        told = caplog.text
    except DataError as error:
        told = str(error)
    assert str(path) in told and "robotrl data recover" in told
    assert problems(store)
    assert recover_store(store.root, dry_run=True).failed == ()
    assert recover_store(store.root).failed == ()
    caplog.clear()
    assert_holds(store, [0, 1, 2, 3])
    assert (problems(store), caplog.text) == ([], "")


def test_a_writer_that_has_journalled_nothing_yet_is_no_reason_to_warn(store, directory, caplog):
    first = store.root / "writers/w1/episodes"
    with store.writer("w1"):
        shutil.copy(directory / f"episodes/{IDS[0]}.zarr.zip", first)
        EpisodeStore.open(store.root).snapshot()
    (first / f"{IDS[0]}.zarr.zip").unlink()
    EpisodeStore.open(store.root).snapshot()
    assert caplog.text == ""


def test_a_dry_run_changes_nothing(store, directory):
    (directory / "staging/half").write_bytes(b"half")
    flip(directory / f"episodes/{IDS[1]}.zarr.zip", 3000)
    path = directory / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    before = {p: p.read_bytes() for p in store.root.rglob("*") if p.is_file()}
    assert len(recover_store(store.root, dry_run=True).repairs) == 4
    assert {p: p.read_bytes() for p in store.root.rglob("*") if p.is_file()} == before


def test_a_disk_that_refuses_to_be_read_hides_nothing(store, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(np, "memmap", refused)
        report = recover_store(store.root)
    assert report.repairs == ()
    assert "Permission denied" in report.failed[0][1]
    assert_holds(store, [0, 1, 2, 3])


def test_one_directory_that_cannot_be_repaired_does_not_stop_the_others(store, directory):
    (directory / "staging/half").write_bytes(b"half")
    broken = store.root / "writers/broken"
    broken.mkdir()
    (broken / "journal.jsonl").mkdir()
    report = recover_store(store.root)
    assert [name for name, _ in report.failed] == ["broken"]
    assert len(report.repairs) == 1
