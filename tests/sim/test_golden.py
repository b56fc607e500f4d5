"""Trajectories kept per MuJoCo version: a change of the physics, of observations or of an expert shows here first.

`uv run python -m tests.sim.test_golden` records those of the installed MuJoCo.
"""

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from robotrl.seeds import seed_range
from robotrl.types import Float64
from sim.environment import MujocoEnvironment
from sim.experts import Expert
from sim.tasks import PAIRS, TASKS

FILE = Path(__file__).parent / "golden" / f"mujoco-{mujoco.__version__}.json"
TICKS, EVERY, WORLDS = 40, 10, 2


def trajectory(task: str, robot: str) -> dict[str, Float64]:
    """Physics states and actions of two worlds under their expert, at every tenth tick, flat."""
    environment = MujocoEnvironment(TASKS[task](), WORLDS, robot=robot)
    expert, rows, running = Expert(environment.spec, WORLDS), np.arange(WORLDS), np.ones(WORLDS, np.bool_)
    seeds = seed_range("train").block(WORLDS)
    observation = environment.reset(seeds, running)
    expert.reset(rows, seeds)
    physics, actions = [], []
    for tick in range(TICKS):
        transition = environment.step(expert.act(observation, rows)[:, None], running)
        observation = transition.observation
        running &= ~(transition.terminated | transition.truncated)[:, 0]
        if tick % EVERY == EVERY - 1:
            physics.append(transition.physics)
            actions.append(transition.actions.astype(np.float64))
    environment.close()
    return {"physics": np.concatenate(physics, 1).ravel(), "actions": np.concatenate(actions, 1).ravel()}


@pytest.mark.skipif(not FILE.is_file(), reason=f"no trajectories were recorded with MuJoCo {mujoco.__version__}")
@pytest.mark.parametrize(("task", "robot"), PAIRS)
def test_trajectories_are_what_they_were(task: str, robot: str):
    # Bits depend on the processor's sine and cosine; before the first contact nothing amplifies that.
    for name, values in trajectory(task, robot).items():
        known = json.loads(FILE.read_text())[f"{task}/{robot}"][name]
        np.testing.assert_allclose(values, known, atol=1e-5, err_msg=name)


def record() -> None:
    found = {f"{task}/{robot}": trajectory(task, robot) for task, robot in PAIRS}
    lines = {pair: {k: [round(float(x), 7) for x in v] for k, v in parts.items()} for pair, parts in found.items()}
    text = ",\n".join(f" {json.dumps(pair)}: {json.dumps(parts)}" for pair, parts in lines.items())
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    record()
