"""`robotrl sim`, through the command line."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rerun.chunk import RrdReader

from robotrl.cli import main
from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.seeds import seed_range
from robotrl.view.live import LiveView
from sim.environment import MujocoEnvironment
from sim.play import RandomPolicy, Shown
from sim.tasks import PAIRS
from sim.tasks.reach import Reach
from tests.contracts.policy import PolicyContract
from tests.contracts.store import assert_same


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main(["sim", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def ticks_of(path: Path, entity: str) -> list[int]:
    """At which ticks a recording has something at `entity`."""
    chunks = [c for c in RrdReader(path).stream() if c.entity_path == entity and not c.is_static]
    return sorted(t for c in chunks for t in c.to_record_batch().column("tick").to_pylist())


class TestRandomPolicy(PolicyContract):
    def make_policy(self):
        world = MujocoEnvironment(Reach(), 1)
        world.close()
        return RandomPolicy(world.spec), world.spec


def test_ls_has_every_task_with_every_robot_and_the_suites(capsys):
    code, out, _ = run(capsys, "ls")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert {tuple(row[:2]) for row in rows if tuple(row[:2]) in PAIRS} == set(PAIRS)
    assert "suites/metaworld" in out
    found = json.loads(run(capsys, "ls", "--json")[1])
    assert [(row["task"], row["robot"]) for row in found["tasks"]] == list(PAIRS)
    assert all(row["expert"] and row["checkpoints"] for row in found["tasks"])


def test_ls_lists_the_tasks_of_a_suite(capsys):
    assert json.loads(run(capsys, "ls", "aloha", "--json")[1]) == ["insertion", "transfer_cube"]


def test_an_exported_play_has_every_tick_and_what_happened(capsys, tmp_path):
    path = tmp_path / "deep" / "play.rrd"
    code, out, _ = run(capsys, "play", "reach", "task.robot=so101", "--episodes", 2, "--seed", 7, "--export", path)
    assert code == 0
    assert "seed 7: success after" in out and "seed 8: success after" in out
    seconds = [float(line.split(" after ")[1].split()[0]) for line in out.splitlines() if "seed" in line]
    ticks = ticks_of(path, "/progress/reward")
    assert ticks == list(range(1, len(ticks) + 1))
    assert len(ticks) == pytest.approx(30 * sum(seconds), abs=3)
    assert ticks_of(path, "/progress/reached") == ticks_of(path, "/scene/gripper") == ticks
    assert len(ticks_of(path, "/happenings")) == 4  # two instructions, two endings


def test_a_simulator_that_tells_no_scene_is_shown_by_its_pictures(capsys, tmp_path):
    path = tmp_path / "play.rrd"
    code, out, _ = run(
        capsys, "play", "suites/gymnasium", "task.name=Pendulum-v1", "task.environment.horizon=30", "--by", "random",
        "--episodes", 1, "--export", path,
    )  # fmt: skip
    assert code == 0 and "timeout" in out
    assert len(ticks_of(path, "/progress/reward")) == 30


def test_being_watched_changes_nothing(tmp_path):
    found = []
    for watched in (False, True):
        world = MujocoEnvironment(Reach(time_limit_s=1.0), 1)
        with LiveView(world.spec, tmp_path / f"{watched}.rrd") as view:
            seen = Shown(world, view, None) if watched else world
            rollout = Rollout(seen, RandomPolicy(world.spec), Execution(execute=10), Origin("run", "play"))
            found.append(list(rollout.run(seed_range("validation").block(2))))
        world.close()
    for plain, shown in zip(*found, strict=True):
        assert_same(plain, shown)


def test_the_browser_gets_it_live_at_the_wanted_speed_and_ctrl_c_ends_it(tmp_path):
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0)), two.bind(("127.0.0.1", 0))
        web_port, port = one.getsockname()[1], two.getsockname()[1]
    command = [sys.executable, "-u", "-m", "robotrl.cli", "sim", "play", "reach", "--speed", "4"]
    command += ["--web-port", str(web_port), "--port", str(port)]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # background jobs of a shell ignore it
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address.startswith(f"http://127.0.0.1:{web_port}")
    lines: list[tuple[float, str]] = []
    while len(lines) < 3:
        line = process.stdout.readline()
        if "seed" in line:
            lines.append((time.monotonic(), line))
    assert b"<html" in urllib.request.urlopen(address, timeout=10).read().lower()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "ended" in rest
    seconds = [float(line.split(" after ")[1].split()[0]) for _, line in lines]
    # Not faster than asked for: four times as fast as in reality.
    assert lines[2][0] - lines[0][0] >= 0.9 * sum(seconds[1:]) / 4
    with pytest.raises(OSError):
        urllib.request.urlopen(address, timeout=2)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ls", "metawrld"), "Did you mean 'metaworld'"),
        (("ls", "gymnasium"), "has no list"),
        (("lst",), "Did you mean 'ls'"),
        (("play",), "TASK"),
        (("play", "inser"), "Did you mean 'insert'"),
        (("play", "insert", "task.robot=so101"), "it is done with panda"),
        (("play", "insert", "task.robt=so101"), "task.robt"),
        (("play", "insert", "--by", "nowhere"), "expected a policy in nowhere/policies, found none"),
        (("play", "insert", "--speed", "0"), "expected a number above 0"),
        (("play", "insert", "--speed", "fast"), "expected a number above 0"),
        (("play", "insert", "--episodes", "-1"), "expected a whole number"),
        (("play", "insert", "--export", "play.txt", "--episodes", "1"), "ends in .rrd"),
        (("play", "insert", "--export", "play.rrd"), "--episodes N"),
        (("play", "suites/gymnasium"), "has no expert: use --by random or --by RUN"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(capsys, arguments, told):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert told in err and "Traceback" not in err


def test_a_port_in_use_is_named(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "play", "reach", "--episodes", 1, "--web-port", port, "--port", 1)
    assert code == 2
    assert f"port {port}" in err


def test_a_run_plays_its_latest_policy_or_the_one_that_is_named(capsys, tmp_path):
    for command in ("collect episodes=4 worlds=4", "train updates=2", "train updates=2 version=3"):
        name, *options = command.split()
        assert main([name, "task=reach", f"run={tmp_path}", *options]) == 0
    for version in ((), ("--version", 0)):
        path = tmp_path / f"{len(version)}.rrd"
        code, out, _ = run(capsys, "play", "reach", "--by", tmp_path, *version, "--episodes", 1, "--export", path)
        assert code == 0 and "seed 0:" in out
    code, _, err = run(capsys, "play", "reach", "--by", tmp_path, "--version", 1, "--episodes", 1)
    assert code == 2
    assert "expected version 1" in err and "found [0, 3]" in err
    assert np.isfinite(ticks_of(path, "/progress/reward")).all()
