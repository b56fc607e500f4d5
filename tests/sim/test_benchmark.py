"""The benchmark runs and reports the keys that are asked for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "sim.py"


@pytest.mark.slow
def test_the_benchmark_ends_with_a_line_of_json():
    command = [sys.executable, str(SCRIPT), "--json", "--worlds", "4", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert {"min_ratio_to_bound", "thread_scaling", "control_steps_per_core_s"} <= report.keys()
    assert {"insert", "pick_place"} == report["tasks"].keys()
    for task in report["tasks"].values():
        assert 0.2 < task["ratio_to_bound"] < 2.0
