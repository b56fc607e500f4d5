"""How often do the experts succeed? Every task on every robot, from the easiest starts to those it is meant for.

Starts come from the validation seeds. The interval is Wilson's at 95 %.

    uv run python benchmarks/experts.py                          # the table of docs/tasks.md
    uv run python benchmarks/experts.py --pictures docs/tasks    # and a picture of every task on every robot
    uv run python benchmarks/experts.py --json                   # and one line of JSON at the end
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# Python puts this folder first, where `sim.py` would hide the package `sim`: move it to the end.
sys.path.sort(key=lambda folder: Path(folder).resolve() == Path(__file__).resolve().parent)

import numpy as np
from PIL import Image

from robotrl.seeds import seed_range
from robotrl.specs import CameraSpec
from robotrl.stats import wilson_interval
from robotrl.types import Bool, Observation
from sim.environment import MujocoEnvironment
from sim.experts import Expert
from sim.render import SceneRenderer
from sim.tasks import PAIRS, TASKS

DIFFICULTIES = (0.0, 0.5, 1.0)
NOISE_M, NOISE_RAD = 0.001, 0.005
"""How far the hand wanders, as in the configurations."""


@dataclass(frozen=True)
class Outcome:
    """How `starts` episodes ended: `failures` counts the reasons, `seconds` is the mean length."""

    starts: int
    failures: Counter[str]
    seconds: float

    @property
    def successes(self) -> int:
        return self.starts - self.failures.total()


def solve(task: str, robot: str, difficulty: float, starts: int) -> Outcome:
    """The expert from `starts` starts."""
    env = MujocoEnvironment(TASKS[task](difficulty=difficulty), starts, threads=0, robot=robot)
    expert, running = Expert(env.spec, starts, NOISE_M, NOISE_RAD), np.ones(starts, np.bool_)
    seeds = seed_range("validation").block(starts)
    expert.reset(np.arange(starts), seeds)
    observation, failures = env.reset(seeds, running), Counter[str]()
    while running.any():
        transition = env.step(everyones(expert, observation, running), running)
        observation = transition.observation
        over = (transition.terminated | transition.truncated)[:, 0]
        failures.update(transition.failure[row] for row in np.flatnonzero(over) if transition.failure[row])
        running &= ~over
    env.close()
    return Outcome(starts, failures, float(observation.tick.mean() / env.spec.control_hz))


def everyones(expert: Expert, observation: Observation, running: Bool) -> np.ndarray:
    """Actions (N, 1, A) of the running worlds."""
    rows = np.flatnonzero(running)
    actions = np.zeros((len(running), 1, expert.spec.action.size), np.float32)
    actions[rows, 0] = expert.act(observation, rows)
    return actions


def picture(task: str, robot: str, folder: Path, seconds: float = 2.25) -> None:
    """A start of the task after some seconds of its expert, as a PNG."""
    env = MujocoEnvironment(TASKS[task](), 1, robot=robot)
    expert, one = Expert(env.spec, 1), np.ones(1, np.bool_)
    observation = env.reset(seed_range("validation").block(1), one)
    for _ in range(round(seconds * env.spec.control_hz)):
        transition = env.step(everyones(expert, observation, one), one)
        observation = transition.observation
        if (transition.terminated | transition.truncated).any():
            break
    folder.mkdir(parents=True, exist_ok=True)
    with SceneRenderer(env.model, CameraSpec("front", 360, 480)) as renderer:
        drawn = Image.fromarray(renderer.frame(observation.physics[0])).quantize(256)
        drawn.save(folder / f"{task}_{robot}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw every task into this folder")
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    options = parser.parse_args()
    report: dict[str, float] = {}
    print(
        "| task | robot | difficulty | success | 95 % interval | mean length | failures |\n"
        "|---|---|---|---|---|---|---|"
    )
    for task, robot in PAIRS:
        for difficulty in DIFFICULTIES:
            found = solve(task, robot, difficulty, options.starts)
            low, high = wilson_interval(found.successes, found.starts)
            report[f"{task}/{robot}/{difficulty:g}"] = found.successes / found.starts
            why = ", ".join(f"{count} {reason}" for reason, count in found.failures.items())
            print(
                f"| {task} | {robot} | {difficulty:g} | {found.successes} of {found.starts} "
                f"| {100 * low:.1f}–{100 * high:.1f} % | {found.seconds:.1f} s | {why} |",
                flush=True,
            )
        if options.pictures is not None:
            picture(task, robot, options.pictures)
    if options.json:
        print(json.dumps({"success": report, "min_success": min(report.values()), "starts": options.starts}))


if __name__ == "__main__":
    main()
