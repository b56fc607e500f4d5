"""The smoke job, whole: figures, resume, refusals, and a kill in the middle. Minutes long, so CI runs one kill."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robotrl.cli import main
from robotrl.data.store import EpisodeStore
from robotrl.events import read_events, stage_results
from robotrl.provenance import code_fingerprint
from robotrl.view.from_events import report_of
from robotrl.view.report_data import summary

FIGURES = ("before", "control", "after", "over_control", "over_control_low", "over_control_high")
KEYS = {f"{name}{suffix}" for name in FIGURES for suffix in ("", "_single_draw")} | {
    *("n", "operator_s", "watch_s", "control_steps", "cpu_s", "wall_s")
}
TIMES = ("cpu_s", "wall_s")


def command(run: Path) -> list[str]:
    return [sys.executable, "-m", "robotrl.cli", "improve", "profile=smoke", f"run={run}"]


def figures(run: Path) -> dict[str, float]:
    return {k: v for k, v in json.loads((run / "summary.json").read_text()).items() if k not in TIMES}


def committed(run: Path) -> set[str]:
    journals = (run / "store" / "writers").glob("*/journal.jsonl")
    return {json.loads(line.split(" ", 1)[1])["id"] for j in journals for line in j.read_text().splitlines() if line}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("improve") / "run"
    done = subprocess.run(command(run), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return run


def test_one_command_leaves_a_summary_a_report_recordings_and_every_stage(finished):
    assert set(json.loads((finished / "summary.json").read_text())) == KEYS
    assert summary(report_of(finished))["n"] == 24
    assert (finished / "report.html").stat().st_size > 10_000
    assert list((finished / "rerun").glob("*.rrd"))
    stages = set(stage_results(read_events(finished / "events.jsonl")))
    assert {"demonstrations", "base/train", "round-1/takeovers", "round-1/gate", "final/after_single_draw"} <= stages


def test_every_episode_says_which_code_recorded_it(finished):
    assert {entry.meta.code for entry in EpisodeStore.open(finished / "store").snapshot().entries} == {
        code_fingerprint()
    }


def test_resuming_a_finished_run_repeats_nothing(finished, capsys):
    before = read_events(finished / "events.jsonl")
    assert main(["improve", "profile=smoke", f"run={finished}"]) == 0
    assert read_events(finished / "events.jsonl") == before
    assert "done before" in capsys.readouterr().out


def test_a_run_with_another_configuration_is_refused_with_the_differing_keys(finished, capsys):
    assert main(["improve", "profile=smoke", "rollouts=17", f"run={finished}"]) == 2
    assert "rollouts: 16 in the run, 17 now" in capsys.readouterr().err


def test_the_steps_work_on_a_run_that_improve_made(finished, capsys):
    assert main(["evaluate", f"run={finished}", "version=1", "episodes=4", "selector=single", "worlds=4"]) == 0
    assert "n=4 validation seeds, version 1" in capsys.readouterr().out
    assert main(["evaluate", f"run={finished}", "task=pick_place", "episodes=4"]) == 2
    assert "another configuration" in capsys.readouterr().err
    assert main(["label", f"run={finished}", "name=again"]) == 0
    assert main(["report", str(finished)]) == 0


def test_damaged_weights_are_refused_by_name(finished, capsys, tmp_path):
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    weights = copy / "policies" / "0" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert main(["evaluate", f"run={copy}", "version=0", "episodes=2"]) == 2
    assert "weights.safetensors" in capsys.readouterr().err


def test_a_second_process_on_the_same_run_is_refused(finished):
    from robotrl.data.durable import FileLock

    lock = FileLock(finished / "lock")
    try:
        done = subprocess.run(command(finished), capture_output=True, text=True, timeout=120)
    finally:
        lock.release()
    assert done.returncode == 2
    assert "process" in done.stderr and "Traceback" not in done.stderr


def killed_and_resumed(run: Path, moments: list[float]) -> None:
    """SIGKILL the job after each of `moments` (s), then let it finish; nothing committed is ever lost."""
    known: set[str] = set()
    for moment in moments:
        process = subprocess.Popen(command(run), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moment)
        process.kill()
        process.wait()
        now = committed(run) if (run / "store").exists() else set()
        assert known <= now
        known = now
    done = subprocess.run(command(run), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert known <= committed(run)


def test_a_killed_job_resumes_to_the_same_figures(finished, tmp_path):
    killed_and_resumed(tmp_path / "elsewhere", [random.Random(0).uniform(12, 25)])
    assert figures(tmp_path / "elsewhere") == figures(finished)
    assert committed(tmp_path / "elsewhere") == committed(finished)


@pytest.mark.slow
def test_ten_kills_at_random_moments_lose_nothing_and_change_no_figure(finished, tmp_path):
    chance = random.Random()
    killed_and_resumed(tmp_path / "run", [chance.uniform(4, 30) for _ in range(10)])
    assert figures(tmp_path / "run") == figures(finished)
    assert committed(tmp_path / "run") == committed(finished)
