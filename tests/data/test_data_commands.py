"""`robotrl data`, through the command line: every command's answer, and what it says to bad input."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robotrl.cli import main
from robotrl.data.commands.main import SUBCOMMANDS
from robotrl.data.corrections import read_corrections
from robotrl.data.store import EpisodeStore
from tests import builders
from tests.data.pictures import with_cameras

OUTCOMES = ("success", "failure", None)
EPISODES = [
    builders.episode(20 + i, i, OUTCOMES[i % 3], (5, 9) if i % 2 else None, stage="rollouts" if i % 2 else "base")
    for i in range(6)
]
IDS = [episode.meta.episode_id for episode in EPISODES]
LINEAGE = {"made_by": "labels=test", "code": "0.1.0+gtest", "critic": None}


def fill(root: Path, episodes=EPISODES) -> EpisodeStore:
    store = EpisodeStore.create(root, builders.spec())
    with store.writer() as writer:
        for episode in episodes:
            writer.on_episode(episode)
    return store


def label(store: EpisodeStore, version: str, episodes, weight: float, **lineage) -> None:
    columns = {e.meta.episode_id: {"weight": np.full(e.length, weight, np.float32)} for e in episodes}
    store.annotate("labels", version, columns, LINEAGE | lineage)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A run with six episodes, two annotations, and two policy versions of which the second began with the first."""
    run = tmp_path_factory.mktemp("made") / "run"
    store = fill(run / "store")
    label(store, "base", EPISODES[:4], 0.5)
    label(store, "round-1", EPISODES[1:], 0.25, critic="round-1")
    for version, start, labels in (("0", None, "base"), ("1", 0, "round-1")):
        (run / "policies" / version).mkdir(parents=True)
        lineage = {"start": start, "labels": labels, "validation": 0.0, "code": "0.1.0+gtest"}
        (run / "policies" / version / "lineage.json").write_text(json.dumps(lineage))
    return run


@pytest.fixture
def run(made, tmp_path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def data(capsys):
    """Calls `robotrl data`; gives the exit code, the output and the error."""

    def call(*words) -> tuple[int, str, str]:
        code = main(["data", *map(str, words)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert (code == 0) == (not err.startswith("error: ")), err
        return code, out, err

    return call


def answer(data, *words):
    code, out, err = data(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def content(root: Path) -> dict[str, bytes]:
    """All files of a store but the locks, which hold process ids."""
    files = (p for p in root.rglob("*") if p.is_file() and p.name not in ("lock", ".lock"))
    return {str(p.relative_to(root)): p.read_bytes() for p in files}


def ids(root: Path) -> list[str]:
    return list(EpisodeStore.open(root).snapshot().ids)


def test_without_a_command_it_says_which_there_are(data):
    assert data()[1] == data("--help")[1]
    assert all(f"  {name} " in data()[1] for name in SUBCOMMANDS)


@pytest.mark.parametrize("command", SUBCOMMANDS)
def test_every_command_explains_itself(data, command):
    code, out, _ = data(command, "nowhere", "--help")
    assert code == 0
    assert SUBCOMMANDS[command].summary in out and f"robotrl data {command} {SUBCOMMANDS[command].example}" in out


@pytest.mark.parametrize("command", ["ls", "stats", "verify", "recover", "pack"])
def test_a_store_that_does_not_exist_is_named_with_the_nearest(data, tmp_path, command):
    fill(tmp_path / "mine", [])
    code, _, err = data(command, tmp_path / "mien")
    assert code == 2 and f"Did you mean '{tmp_path / 'mine'}'" in err
    assert not (tmp_path / "mien").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lss"], "Did you mean 'ls'"),
        (["ls"], "required: STORE"),
        (["ls", "RUN", "more"], "unexpected argument 'more'"),
        (["ls", "RUN", "--limmit=3"], "Did you mean '--limit'"),
        (["ls", "RUN", "--lim", "3"], "Did you mean '--limit'"),
        (["ls", "RUN", "--limit", "-1"], "-1"),
        (["ls", "RUN", "--limit", "many"], "'many': expected a whole number"),
        (["ls", "RUN", "--outcome", "sucess"], "Did you mean 'success'"),
        (["ls", "RUN", "--source", "human"], "Valid: autonomous"),
        (["ls", "RUN", "--stage", "rollout"], "Did you mean 'rollouts'"),
        (["ls", "RUN", "--task", "inser"], "Did you mean 'insert'"),
        (["show", "RUN", "0000"], "is the beginning of 6 ids"),
        (["show", "RUN", "../../store.json"], "no episode is called '../../store.json'"),
        (["show", "RUN", ""], "no episode is called ''"),
        (["show", "RUN", "000000000000000g"], "Did you mean '00000"),
        (["diff", "RUN", "base", "round1"], "Did you mean 'labels/round-1'"),
        (["diff", "RUN", "base", "../labels/base"], "no annotation is called"),
        (["lineage", "RUN"], "either VERSION or --episode"),
        (["lineage", "RUN", "0", "--episode", IDS[0]], "either VERSION or --episode"),
        (["lineage", "RUN", "7"], "no policy version is called '7'"),
        (["lineage", "RUN", "../policies/0"], "no policy version is called"),
        (["lineage", "RUN", "--episode", "none"], "no episode is called 'none'"),
        (["rm", "RUN", IDS[0]], "--reason"),
        (["rm", "RUN", IDS[0], "nothere", "--reason", "r", "--yes"], "no episode is called 'nothere'"),
        (["relabel", "RUN", IDS[0], "--reason", "r"], "nothing to correct"),
        (["relabel", "RUN", IDS[0], "--outcome", "win", "--reason", "r"], "no outcome is called 'win'"),
        (["relabel", "RUN", "nothere", "--outcome", "none", "--reason", "r"], "no episode is called"),
        (["rm", "RUN", IDS[0], "--reason", " "], "some words, got none"),
        (["relabel", "RUN", IDS[0], "--instruction", "", "--reason", "r"], "some words, got none"),
        (["relabel", "RUN", IDS[0], "--outcome", "none", "--reason", ""], "some words, got none"),
        (["render", "RUN", "front", "--every", "x"], "'x': expected a whole number of at least 1"),
        (["render", "RUN", "front", "--every", "0"], "'0': expected a whole number of at least 1"),
        (["split", "RUN", "DST", "--by", "stages"], "Did you mean 'stage'"),
        (["split", "RUN", "DST", "--by", "share=2"], "between 0 and 1"),
        (["split", "RUN", "DST", "--by", "share"], "as share=0.9"),
        (["split", "RUN", "DST", "--by", "stage=base"], "only share takes a number"),
        (["merge", "RUN"], "required: DST"),
        (["merge", "RUN", "RUN"], "a source and the target"),
    ],
)
def test_a_mistake_is_one_message_and_changes_nothing(data, run, words, told):
    before = content(run)
    paths = {"RUN": run, "DST": run.parent / "dst"}
    code, _, err = data(*(paths.get(word, word) for word in words))
    assert code == 2 and told in err
    assert content(run) == before
    assert not (run.parent / "dst").exists()


def test_ls_lists_filters_and_limits(data, run):
    code, out, _ = data("ls", run)
    assert code == 0 and "6 of 6 episodes" in out and f"robotrl data show {run} {IDS[0]}" in out
    by_stage = IDS[0::2] + IDS[1::2]  # base before rollouts, in the journal's order within a stage
    assert [row["id"] for row in answer(data, "ls", run / "store")["episodes"]] == by_stage
    assert answer(data, "ls", run, "--outcome", "cut", "--stage", "base")["episodes"][0]["id"] == IDS[2]
    assert answer(data, "ls", run, "--source", "takeover", "--task", "insert")["total"] == 3
    limited = answer(data, "ls", run, "--limit", "2")
    assert (limited["total"], len(limited["episodes"])) == (6, 2)
    assert "--limit 0 lists all" in data("ls", run, "--limit", "2")[1]


def test_an_empty_store_has_answers_too(data, tmp_path):
    fill(tmp_path / "empty", [])
    assert answer(data, "ls", tmp_path / "empty") == {"total": 0, "episodes": []}
    assert answer(data, "stats", tmp_path / "empty")["episodes"] == 0
    for command in ("ls", "stats", "verify", "pack", "recover"):
        assert data(command, tmp_path / "empty")[0] == 0
    assert data("split", tmp_path / "empty", tmp_path / "parts", "--by", "stage")[0] == 2


def test_show_tells_all_of_one_episode(data, run):
    shown = answer(data, "show", run, IDS[1])
    assert shown["metadata"] == shown["recorded"]
    assert {"name": "state", "shape": [22, 11], "dtype": "float32"} in shown["arrays"]
    assert shown["takeovers"] == [[5, 9]]
    assert shown["annotations"] == {"labels/base": {"weight": 0.5}, "labels/round-1": {"weight": 0.25}}
    assert shown["policies"] == {"0": ["0"], "1": ["1", "0"]}
    assert "ticks 5-9" in data("show", run, IDS[1])[1]


def test_a_beginning_of_an_id_is_enough(data, tmp_path):
    episode = replace(EPISODES[0], meta=replace(EPISODES[0].meta, episode_id="feed0123"))
    fill(tmp_path / "s", [*EPISODES, episode])
    assert answer(data, "show", tmp_path / "s", "feed")["metadata"]["episode_id"] == "feed0123"


def test_stats_answer_what_people_ask(data, run):
    found = answer(data, "stats", run)
    assert (found["episodes"], found["ticks"]) == (6, sum(e.length for e in EPISODES))
    assert [(g["source"], g["successes"], g["failures"], g["cut"]) for g in found["summary"]["groups"]] == [
        ("autonomous", 1, 1, 1), ("takeover", 1, 1, 1)
    ]  # fmt: skip
    assert found["success"][0]["rate"] == 0.5 and 0.09 < found["success"][0]["low"] < 0.1
    assert (found["summary"]["tally"]["takeovers"], found["summary"]["tally"]["human_ticks"]) == (3, 12)
    assert "Wilson" in data("stats", run)[1]


def test_diff_counts_ticks_and_names_episodes(data, run):
    found = answer(data, "diff", run, "base", "labels/round-1")
    assert found["columns"][0]["changed"] == sum(e.length for e in EPISODES[1:4])
    assert (found["added"], found["removed"]) == (IDS[4:], IDS[:1])
    assert found["lineage"] == {"critic": [None, "round-1"]}
    assert "the same values" in data("diff", run, "base", "base")[1]


def test_lineage_goes_both_ways(data, run):
    found = answer(data, "lineage", run, "1")
    assert [(t["version"], t["episodes"]) for t in found] == [("1", IDS[1:]), ("0", IDS[:4])]
    assert answer(data, "lineage", run, "--episode", IDS[5])["policies"] == {"1": ["1"]}
    assert answer(data, "lineage", run, "--episode", IDS[0])["policies"] == {"0": ["0"], "1": ["0"]}
    assert "through version 0" in data("lineage", run, "--episode", IDS[0])[1]
    assert "version 0: 4 episodes" in data("lineage", run, "1")[1]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "validation"),
        ('{"labels": "base"}', "'start'"),
        ('{"labels": "base", "start": 1, "validation": 0}', "back"),
    ],
)
def test_a_lineage_that_cannot_be_followed_is_named(data, run, content, told):
    (run / "policies" / "1" / "lineage.json").write_text(content)
    code, _, err = data("lineage", run, "1")
    assert code == 2 and told in err
    assert data("show", run, IDS[0])[0] == 0


def test_a_relabelled_episode_is_never_rewritten_and_shows_the_corrected_value(data, run):
    before = content(run / "store" / "writers")
    assert data("relabel", run, IDS[0], IDS[1], "--outcome", "none", "--instruction", "a", "--reason", "r")[0] == 0
    assert data("relabel", run, IDS[0], "--outcome", "failure", "--reason", "looked again")[0] == 0
    assert content(run / "store" / "writers") == before
    assert answer(data, "ls", run, "--outcome", "failure")["total"] == 2
    assert answer(data, "ls", run, "--task", "a")["total"] == 2
    assert "failure*" in data("ls", run)[1]
    shown = answer(data, "show", run, IDS[0])
    assert (shown["metadata"]["outcome"], shown["recorded"]["outcome"]) == ("failure", "success")
    assert shown["metadata"]["instruction"] == "a"
    assert answer(data, "stats", run)["summary"]["corrected"] == 2


def test_rm_shows_what_it_would_do_and_does_it_only_with_yes(data, run):
    code, out, err = data("rm", run, IDS[0], IDS[1], "--reason", "camera fell")
    assert code == 2 and IDS[1] in out and "labels/base" in out and "--yes" in err
    assert ids(run / "store") == IDS
    assert data("rm", run, IDS[0], IDS[1], "--reason", "camera fell", "--yes")[0] == 0
    assert ids(run / "store") == IDS[2:]
    assert data("pack", run)[0] == 0
    assert answer(data, "verify", run) == []
    assert "removed" in data("lineage", run, "0")[1]


def test_verify_says_what_is_wrong_and_recover_repairs_it_with_yes(data, run):
    path = next(run.glob("store/writers/*/episodes/0000000000000002*"))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    code, out, err = data("verify", run)
    assert code == 2 and str(path) in out and "1 errors" in err
    assert answer(data, "stats", run)["summary"]["unreadable"][0][0] == IDS[2]
    assert data("show", run, IDS[2])[0] == 2
    code, out, err = data("recover", run)
    assert code == 2 and IDS[2] in out and "--yes" in err and path.exists()
    assert data("recover", run, "--yes")[0] == 0
    assert data("verify", run)[0] == 0
    assert ids(run / "store") == [i for i in IDS if i != IDS[2]]
    assert "nothing to repair" in data("recover", run)[1]


def test_a_damaged_journal_is_named_and_repaired(data, run):
    journal = next(run.glob("store/writers/*/journal.jsonl"))
    content = bytearray(journal.read_bytes())
    content[100] ^= 1
    journal.write_bytes(content)
    code, _, err = data("ls", run)
    assert code == 2 and str(journal) in err and "robotrl data recover" in err
    assert data("recover", run, "--yes")[0] == 0
    assert ids(run / "store") == IDS


def test_what_a_live_writer_holds_is_left_alone(data, run):
    with EpisodeStore.open(run / "store").writer("w0") as writer:
        assert "a process is writing to it" in data("recover", run)[1]
        assert answer(data, "pack", run)["busy"] == ["w0"]
        writer.on_episode(builders.episode(20, 9))
    assert len(ids(run / "store")) == 7


def test_ls_names_an_episode_that_does_not_read(data, run):
    next(run.glob("store/writers/*/episodes/0000000000000002*")).write_bytes(b"not a zip")
    assert "does not read" in data("ls", run)[1]


def test_a_damaged_store_json_is_named(data, run):
    (run / "store" / "store.json").write_text("{")
    code, _, err = data("ls", run)
    assert code == 2 and "store.json: damaged" in err


def test_merge_brings_episodes_and_corrections_together_and_may_be_repeated(data, run, tmp_path):
    fill(tmp_path / "a", EPISODES[:4])
    fill(tmp_path / "b", EPISODES[3:])
    assert data("relabel", tmp_path / "b", IDS[5], "--outcome", "success", "--reason", "r")[0] == 0
    target = tmp_path / "both"
    assert answer(data, "merge", tmp_path / "a", tmp_path / "b", target)[0]["copied"] == 6
    before = content(target)
    assert answer(data, "merge", tmp_path / "a", tmp_path / "b", target)[0]["present"] == 6
    assert content(target) == before
    assert read_corrections(EpisodeStore.open(target)).by_id[IDS[5]].outcome == "success"
    assert [e.crc for e in EpisodeStore.open(target).snapshot().entries] == [
        e.crc for e in EpisodeStore.open(run / "store").snapshot().entries
    ]


def test_pictures_are_copied_bit_exactly_and_listed(data, tmp_path):
    fill(tmp_path / "a", [EPISODES[0], with_cameras(EPISODES[1], every=2)])
    assert data("merge", tmp_path / "a", tmp_path / "b")[0] == 0
    assert data("split", tmp_path / "b", tmp_path / "parts", "--by", "source")[0] == 0
    one, two = (EpisodeStore.open(p).snapshot() for p in (tmp_path / "a", tmp_path / "b"))
    assert one.fingerprint == two.fingerprint
    assert EpisodeStore.open(tmp_path / "parts" / "takeover").snapshot().entries[0].crc == one.entries[1].crc
    assert [row["cameras"] for row in answer(data, "ls", tmp_path / "b")["episodes"]] == [[], ["front", "wrist"]]
    camera = {"name": "cameras/front", "shape": [11, 32, 40, 3], "dtype": "uint8"}
    assert camera in answer(data, "show", tmp_path / "b", IDS[1])["arrays"]


def test_merge_refuses_before_it_copies_anything(data, tmp_path):
    fill(tmp_path / "a", EPISODES[:2])
    other = [EPISODES[2], replace(EPISODES[0], reward=EPISODES[0].reward + 1)]
    fill(tmp_path / "b", other)
    EpisodeStore.create(tmp_path / "foreign", builders.spec(task="pick_place"))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    for sources, target, told in (
        (["a", "b"], "new", "different content"),
        (["a", "foreign"], "new", "differ in task"),
        (["a"], "foreign", "differ in task"),
        (["a"], "b", "different content"),
        (["a"], "file", "no episode store"),
        (["a"], "full", "no episode store"),
        (["a"], "file/below", "file/below"),
    ):
        code, _, err = data("merge", *(tmp_path / s for s in sources), tmp_path / target)
        assert code == 2 and told in err, (sources, target)
    assert not (tmp_path / "new").exists()
    assert ids(tmp_path / "b") == sorted(e.meta.episode_id for e in other)
    assert (tmp_path / "file").read_text() == "mine"


def test_split_by_what_episodes_say(data, run, tmp_path):
    assert data("relabel", run, IDS[0], "--outcome", "failure", "--reason", "r")[0] == 0
    reports = answer(data, "split", run, tmp_path / "parts", "--by", "outcome")
    assert [(Path(r["target"]).name, r["copied"]) for r in reports] == [("cut", 2), ("failure", 3), ("success", 1)]
    assert ids(tmp_path / "parts" / "failure") == [IDS[0], IDS[1], IDS[4]]
    again = answer(data, "split", run, tmp_path / "parts", "--by", "outcome")
    assert [r["copied"] for r in again] == [0, 0, 0]


def test_split_by_share_depends_on_the_seed_and_loses_nothing(data, run, tmp_path):
    halves = []
    for seed in (0, 1, 0):
        parts = tmp_path / f"parts-{len(halves)}"
        assert data("split", run, parts, "--by", "share=0.5", "--seed", seed)[0] == 0
        halves.append((ids(parts / "train"), ids(parts / "held-out")))
    assert halves[0] == halves[2] != halves[1]
    assert all(sorted(train + rest) == IDS for train, rest in halves)


def test_names_of_stages_become_safe_names_of_parts(data, tmp_path):
    odd = [
        replace(e, meta=replace(e.meta, stage=stage)) for e, stage in zip(EPISODES, ("../up", "a/b", ""), strict=False)
    ]
    fill(tmp_path / "s", odd)
    assert data("split", tmp_path / "s", tmp_path / "parts", "--by", "stage")[0] == 0
    assert sorted(p.name for p in (tmp_path / "parts").iterdir()) == ["a-b", "none", "up"]


def test_a_target_that_cannot_be_written_to_is_an_error(data, run):
    code, _, err = data("merge", run, "/proc/nowhere/store")
    assert code == 2 and "/proc/nowhere" in err


def test_odd_characters_are_printed_without_steering_the_terminal(data, tmp_path):
    meta = replace(EPISODES[0].meta, instruction="[red]put[/red] ü \x1b[2J \u202e it", stage="a b")
    fill(tmp_path / "a b", [replace(EPISODES[0], meta=meta)])
    assert "[red]put[/red] ü \\x1b[2J \\u202e it" in data("show", tmp_path / "a b", IDS[0])[1]
    assert f"'{tmp_path / 'a b'}'" in data("ls", tmp_path / "a b")[1]


@pytest.mark.parametrize(("target", "words"), [("set", []), ("set.hdf5", []), ("odd", ["--format", "robomimic"])])
def test_what_is_exported_comes_back_exactly(data, run, tmp_path, target, words):
    assert answer(data, "export", run, tmp_path / target, *words)["episodes"] == 6
    report = answer(data, "import", tmp_path / target, tmp_path / "again", *words)
    assert (report["imported"], report["present"]) == (6, 0)
    assert answer(data, "import", tmp_path / target, tmp_path / "again", *words)["present"] == 6
    theirs, ours = (EpisodeStore.open(p).snapshot() for p in (tmp_path / "again", run / "store"))
    assert theirs.fingerprint == ours.fingerprint


def test_an_export_takes_the_episodes_that_are_asked_for(data, run, tmp_path):
    code, out, _ = data("export", run, tmp_path / "set", "--outcome", "success", "--source", "takeover")
    assert code == 0 and f"robotrl data import {tmp_path / 'set'}" in out
    assert data("import", tmp_path / "set", tmp_path / "again")[0] == 0
    assert ids(tmp_path / "again") == [IDS[3]]


@pytest.mark.parametrize("target", ["set", "set.hdf5"])
def test_an_export_writes_what_was_corrected_and_says_so(data, run, tmp_path, target):
    before = {e.episode_id: e.meta for e in EpisodeStore.open(run / "store").snapshot().entries}[IDS[2]]
    assert before.outcome != "success"
    words = ("--outcome", "success", "--instruction", "do it well", "--reason", "r")
    assert data("relabel", run, IDS[2], *words)[0] == 0
    assert IDS[2] in data("export", run, tmp_path / target)[1]
    assert data("import", tmp_path / target, tmp_path / "again")[0] == 0
    after = {e.episode_id: e.meta for e in EpisodeStore.open(tmp_path / "again").snapshot().entries}[IDS[2]]
    assert (after.outcome, after.instruction) == ("success", "do it well")
    assert replace(after, outcome=before.outcome, instruction=before.instruction) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["export", "RUN", "HERE/full"], "full"),
        (["export", "RUN", "RUN", "HERE/new.hdf5"], "one environment"),
        (["export", "HERE/empty", "HERE/new"], "no episodes to export"),
        (["export", "RUN", "HERE/new", "--format", "lerobt"], "Did you mean 'lerobot'"),
        (["export", "RUN", "HERE/new", "--stage", "bas"], "Did you mean 'base'"),
        (["export", "RUN", "/proc/nowhere/set"], "/proc/nowhere"),
        (["export", "RUN"], "required: TARGET"),
        (["import", "HERE/nothing", "HERE/new"], "nothing"),
        (["import", "HERE/full", "HERE/new"], "meta/info.json"),
        (["import", "HERE/nothing.hdf5", "HERE/new"], "nothing.hdf5"),
        (["import", "HERE/full/note.hdf5", "HERE/new"], "note.hdf5"),
        (["import", "HERE/full", "HERE/new", "--outcome", "none"], "no outcome is called 'none'"),
    ],
)
def test_exchange_refuses_before_anything_appears(data, run, tmp_path, words, told):
    fill(tmp_path / "empty", [])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.hdf5").write_text("mine")
    paths = [word.replace("HERE", str(tmp_path)).replace("RUN", str(run)) for word in words]
    code, _, err = data(*paths)
    assert code == 2 and told in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "full", "run"]
    assert (tmp_path / "full" / "note.hdf5").read_text() == "mine"
