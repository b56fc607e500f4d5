from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.copying import merge_stores, split_by, split_by_share, write_parts
from robotrl.data.corrections import Correction, read_corrections, write_corrections
from robotrl.data.store import EpisodeStore
from robotrl.errors import ConfigurationError
from tests import builders

EPISODES = [builders.episode(3 + i, i, takeover=None, stage=f"s{i % 2}") for i in range(5)]
IDS = [e.meta.episode_id for e in EPISODES]


class Stopped(Exception):
    """What a test stops a copy with."""


def stop_after(count: int):
    def progress(done: int, total: int) -> None:
        if done >= count:
            raise Stopped

    return progress


def ignore(done: int, total: int) -> None:
    """No progress bar."""


def fill(root: Path, numbers) -> EpisodeStore:
    store = EpisodeStore.create(root, builders.spec())
    with store.writer() as writer:
        for number in numbers:
            writer.on_episode(EPISODES[number])
    return store


@settings(max_examples=8, deadline=None)
@given(
    sources=st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=3),
    there=st.sets(st.integers(0, 4)),
    stopped=st.integers(1, 5),
)
def test_a_merge_that_was_stopped_anywhere_and_repeated_holds_the_union(tmp_path_factory, sources, there, stopped):
    root = tmp_path_factory.mktemp("merge")
    paths = [fill(root / str(i), numbers).root for i, numbers in enumerate(sources)]
    fill(root / "target", there)
    union = set().union(*sources)
    try:
        merge_stores(paths, root / "target", stop_after(stopped))
    except Stopped:
        assert stopped <= len(union)
    report = merge_stores(paths, root / "target", ignore)
    assert report.copied + report.present == len(union)
    assert EpisodeStore.open(root / "target").snapshot().ids == tuple(IDS[i] for i in sorted(union | there))


@settings(max_examples=8, deadline=None)
@given(share=st.floats(0.05, 0.95), seed=st.integers(0, 99), stopped=st.integers(1, 6))
def test_a_split_takes_each_episode_to_one_part_also_when_it_is_repeated(tmp_path_factory, share, seed, stopped):
    root = tmp_path_factory.mktemp("split")
    store = fill(root / "store", range(5))
    parts = split_by_share(store, share, seed)
    with suppress(Stopped):
        write_parts(store, parts, root / "parts", stop_after(stopped))
    write_parts(store, parts, root / "parts", ignore)
    found = [EpisodeStore.open(path).snapshot().ids for path in sorted((root / "parts").iterdir())]
    assert sorted(id_ for ids in found for id_ in ids) == IDS


def test_corrections_go_where_their_episodes_go(tmp_path):
    store = fill(tmp_path / "store", range(5))
    write_corrections(store, {i: Correction("failure") for i in IDS[:2]}, "r")
    write_parts(store, split_by(store, "stage"), tmp_path / "parts", ignore)
    for part, episode in (("s0", IDS[0]), ("s1", IDS[1])):
        assert read_corrections(EpisodeStore.open(tmp_path / "parts" / part)).by_id == {episode: Correction("failure")}


def test_where_sources_correct_one_episode_differently_the_later_wins_and_a_repetition_writes_nothing(tmp_path):
    stores = [fill(tmp_path / name, range(2)) for name in "ab"]
    write_corrections(stores[0], {IDS[0]: Correction("failure", "lift")}, "r")
    write_corrections(stores[1], {IDS[0]: Correction(None)}, "r")
    for _ in range(2):
        merge_stores([s.root for s in stores], tmp_path / "c", ignore)
    found = read_corrections(EpisodeStore.open(tmp_path / "c"))
    assert (dict(found.by_id), found.versions) == ({IDS[0]: Correction(None, "lift")}, ("000001",))


def test_a_share_changes_nothing_for_episodes_that_were_there_before(tmp_path):
    store = fill(tmp_path / "store", range(3))
    before = set(split_by_share(store, 0.5, 1)["train"].ids)
    fill(tmp_path / "store", range(5))
    after = split_by_share(EpisodeStore.open(tmp_path / "store"), 0.5, 1)["train"].ids
    assert before == set(after) & set(IDS[:3])


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_a_share_that_is_none_is_refused(tmp_path, share):
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        split_by_share(fill(tmp_path, []), share, 0)
