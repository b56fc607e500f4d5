"""Every benchmark runs and reports the keys that are asked for; small, so that its figures mean nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim.tasks import TASKS

FOLDER = Path(__file__).parents[2] / "benchmarks"


def report(script: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(FOLDER / f"{script}.py"), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_sim_compares_every_task_and_robot_with_its_bound():
    found = report("sim", "--worlds", "4", "--seconds", "1")
    assert {"min_ratio_to_bound", "thread_scaling", "control_steps_per_core_s"} <= found.keys()
    assert found["image_steps_per_core_s"] > 0
    assert len(found["tasks"]) == sum(len(task.robots) for task in TASKS.values())
    assert TASKS.keys() <= found["tasks"].keys()
    for task in found["tasks"].values():
        assert 0.2 < task["ratio_to_bound"] < 2.0
        assert 0.1 < task["thread_scaling"] < 4.0
    assert {"gymnasium_sync", "gymnasium_async"} == found["peers"].keys()


@pytest.mark.slow
def test_recipes_and_attention_share_a_base_and_report_every_row(tmp_path):
    small = ("--seeds", "3", "--episodes", "8", "--runs", str(tmp_path), "profile=smoke")
    rows = report("recipes", "--repeats", "1", *small)["seeds"]["3"]
    assert len(rows) == 7
    assert all({"success", "spread", "over_demos", "low", "high"} == row.keys() for row in rows.values())
    found = report("attention", "--watched", "8", *small)["seeds"]["3"]
    assert len(found["operator_s"]) == 3 and len(found["success"]) == 4


@pytest.mark.slow
def test_images_collects_trains_and_evaluates():
    found = report("images", "--demonstrations", "4", "--updates", "3", "--episodes", "4")
    assert found["n"] == 4 and 0 <= found["low"] <= found["success"] <= found["high"] <= 1
    parts = [found[name] for name in ("collect_s", "train_s", "evaluate_s")]
    assert min(parts) > 0 and found["seconds"] == pytest.approx(sum(parts))
