"""How fast is the simulation? Control steps per core-second against bare MuJoCo and Gymnasium's vector environments.

Every contender replays the same expert actions from the same starts with the same physics options. *bare* is a loop
over `mj_step` that reads nothing: the bound. *engine* adds threads and divergence checks; *environment* adds what the
platform needs: limits, observations, rewards, successes, endings. The Gymnasium peers are the thinnest environment of
the task that one would write by hand: one `MjData` a world, poses read from MuJoCo, a scalar success test, no
rewards. Rates count the processor time of all processes and threads, so that other work on the machine matters less.

    uv run python benchmarks/sim.py          # a table
    uv run python benchmarks/sim.py --json   # and one line of JSON at the end
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path

# Python puts this folder first, where this very file would hide the package `sim`: move it to the end.
sys.path.sort(key=lambda folder: Path(folder).resolve() == Path(__file__).resolve().parent)

import gymnasium
import mujoco
import numpy as np

from robotrl.seeds import seed_range
from robotrl.types import Float32, Float64
from sim import scene
from sim.engine import Engine
from sim.environment import MujocoEnvironment
from sim.experts import Expert
from sim.robots import PANDA
from sim.tasks.base import Task
from sim.tasks.insert import Insert
from sim.tasks.pick_place import PickPlace

TASKS: dict[str, Task] = {"insert": Insert(), "pick_place": PickPlace()}
CHUNK = 8
"""Ticks between two looks at the policy in the main job."""


@dataclass(frozen=True)
class Replay:
    """What everybody replays: `starts` (N, X) and executed `actions` (N, T, A) of worlds that all run to the end."""

    task: Task
    seeds: np.ndarray
    starts: Float64
    actions: Float32

    @property
    def steps(self) -> int:
        return self.actions.shape[0] * self.actions.shape[1]


def record(task: Task, worlds: int) -> Replay:
    """Expert actions until the first world ends, cut to whole chunks."""
    env = MujocoEnvironment(task, worlds)
    expert, rows, everyone = Expert(env.spec, worlds), np.arange(worlds), np.ones(worlds, np.bool_)
    seeds = seed_range("train").block(worlds)
    observation = env.reset(seeds, everyone)
    expert.reset(rows, seeds)
    starts, actions = observation.physics.copy(), []
    while True:
        transition = env.step(expert.act(observation, rows)[:, None], everyone)
        observation = transition.observation
        if (transition.terminated | transition.truncated).any():
            break
        actions.append(transition.actions[:, 0])
    length = len(actions) // CHUNK * CHUNK
    return Replay(task, seeds, starts, np.stack(actions, axis=1)[:, :length])


def bare(replay: Replay) -> Callable[[], None]:
    """The bound: nothing but `mj_step`."""
    model = scene.compile_model(replay.task.name, PANDA, replay.task.objects(PANDA))
    data, controls = mujoco.MjData(model), PANDA.controls(replay.actions)

    def run() -> None:
        for start, path in zip(replay.starts, controls, strict=True):
            mujoco.mj_setState(model, data, start, scene.PHYSICS)
            for control in path:
                data.ctrl[:] = control
                mujoco.mj_step(model, data, PANDA.substeps)

    return run


def engine(replay: Replay, threads: int = 1) -> Callable[[], None]:
    """The engine alone, one call a chunk."""
    model = scene.compile_model(replay.task.name, PANDA, replay.task.objects(PANDA))
    stepper, controls = Engine(model, threads, PANDA.substeps), PANDA.controls(replay.actions)

    def run() -> None:
        physics = replay.starts
        for k in range(0, controls.shape[1], CHUNK):
            physics = stepper.run(physics, controls[:, k : k + CHUNK])[0][:, -1]

    return run


def environment(replay: Replay, ticks: int, threads: int = 1) -> Callable[[], None]:
    """The environment, `ticks` control ticks a call."""
    worlds = len(replay.seeds)
    env, everyone = MujocoEnvironment(replay.task, worlds, threads), np.ones(worlds, np.bool_)

    def run() -> None:
        env.reset(replay.seeds, everyone)
        for k in range(0, replay.actions.shape[1], ticks):
            env.step(replay.actions[:, k : k + ticks], everyone)

    return run


class GymnasiumTask(gymnasium.Env):
    """The task as a thin Gymnasium environment."""

    def __init__(self, task: Task, start: Float64) -> None:
        self.model = scene.compile_model(task.name, PANDA, task.objects(PANDA))
        self.data = mujoco.MjData(self.model)
        self.start = start
        bodies = [self.model.body(i) for i in range(1, self.model.nbody)]
        self.item = next(int(b.id) for b in bodies if b.dofnum[0] == 6)
        self.goal = next(int(b.id) for b in bodies if b.mocapid[0] >= 0)
        self.tool = self.model.body(PANDA.arms[0].tool).id
        size = 2 * 9 + 3 * 12 + 6
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(np.float32(PANDA.action.low), np.float32(PANDA.action.high))

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        mujoco.mj_setState(self.model, self.data, self.start, scene.PHYSICS)
        return self.look()[0], {}

    def step(self, action: Float32):
        data = self.data
        data.ctrl[:7] = action[:7]
        data.ctrl[7:] = 0.5 * float(action[7])
        mujoco.mj_step(self.model, data, PANDA.substeps)
        observation, success = self.look()
        return observation, float(success), False, False, {}

    def look(self) -> tuple[Float32, bool]:
        model, data = self.model, self.data
        # Poses of the state after the step; `mj_step` leaves those before it.
        mujoco.mj_kinematics(model, data)
        bodies = [self.tool, self.item, self.goal]
        position, axes = data.xpos[bodies], data.xmat[bodies]
        reach, place = position[1] - position[0], position[2] - position[1]
        observation = np.concatenate([data.qpos[:9], data.qvel[:9], position.ravel(), axes.ravel(), reach, place])
        released = data.qpos[7] + data.qpos[8] > 0.046
        return observation.astype(np.float32), bool(released and abs(place).max() < 0.004)


def gymnasium_vector(replay: Replay, kind: str) -> tuple[Callable[[], None], gymnasium.vector.VectorEnv]:
    """Gymnasium's own vectorisation, "sync" or "async" (one process a world)."""
    makers = [partial(GymnasiumTask, replay.task, start) for start in replay.starts]
    if kind == "sync":
        vector = gymnasium.vector.SyncVectorEnv(makers)
    else:
        vector = gymnasium.vector.AsyncVectorEnv(makers, context="spawn")

    def run() -> None:
        vector.reset()
        for k in range(replay.actions.shape[1]):
            vector.step(replay.actions[:, k])

    return run, vector


def processor_s(processes: tuple[int, ...] = ()) -> float:
    """Processor seconds of this process and of `processes` so far."""
    total = time.process_time()
    for pid in processes:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def rates(contenders: dict[str, tuple[Callable[[], None], int, tuple[int, ...]]], rounds: int) -> dict[str, np.ndarray]:
    """Control steps per core-second of each, (rounds,); a contender is (run, steps, its processes).

    Within a round everybody runs once, so that a ratio within it is fair when the machine's speed drifts; in an order
    drawn anew, because whoever follows a run on all cores finds them throttled.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    order = np.random.default_rng(0)
    for _ in range(rounds):
        for name in order.permutation(list(contenders)):
            run, steps, processes = contenders[name]
            start = processor_s(processes)
            run()
            found[name].append(steps / (processor_s(processes) - start))
    return {name: np.array(values) for name, values in found.items()}


def measure(task: Task, worlds: int, rounds: int) -> dict[str, np.ndarray]:
    """Rates of all contenders on one task."""
    replay = record(task, worlds)
    # One process a world: as many worlds as there could be on a small machine, replayed more than once.
    few = Replay(task, replay.seeds[:4], replay.starts[:4], replay.actions[:4])
    sync, sync_vector = gymnasium_vector(replay, "sync")
    async_, async_vector = gymnasium_vector(few, "async")

    def async_often() -> None:
        for _ in range(8):
            async_()

    workers = tuple(p.pid for p in async_vector.processes)
    found = rates(
        {
            "bare": (bare(replay), replay.steps, ()),
            "engine": (engine(replay), replay.steps, ()),
            "environment": (environment(replay, CHUNK), replay.steps, ()),
            "environment_each_tick": (environment(replay, 1), replay.steps, ()),
            "gymnasium_sync": (sync, replay.steps, ()),
            "gymnasium_async": (async_often, 8 * few.steps, workers),
        },
        rounds,
    )
    sync_vector.close()
    async_vector.close()
    return found


def bare_worker(task_name: str, worlds: int, barrier: Barrier, results: "multiprocessing.Queue[float]") -> None:
    """Replay in a process of its own, in step with another; reports the wall time."""
    run = bare(record(TASKS[task_name], worlds))
    run()
    for _ in range(3):
        barrier.wait()
        start = time.perf_counter()
        run()
        results.put(time.perf_counter() - start)


def thread_scaling(task_name: str, worlds: int) -> float:
    """Wall-clock rate of the environment on two threads over that of two bare processes at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(3), context.Queue()
    half = worlds // 2
    workers = [context.Process(target=bare_worker, args=(task_name, half, barrier, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    replay = record(TASKS[task_name], worlds)
    run = environment(replay, CHUNK, threads=2)
    run()
    ratios = []
    for _ in range(3):
        barrier.wait()
        bare_s = max(results.get(), results.get())
        start = time.perf_counter()
        run()
        ratios.append(bare_s / (time.perf_counter() - start))
    for worker in workers:
        worker.join()
    return float(np.median(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    report: dict[str, dict[str, float]] = {}
    for name, task in TASKS.items():
        found = measure(task, options.worlds, options.rounds)
        ratio = {k: float(np.median(v / found["bare"])) for k, v in found.items()}
        rate = {k: float(np.median(v)) for k, v in found.items()}
        report[name] = {
            "control_steps_per_core_s": rate["environment"],
            "ratio_to_bound": ratio["environment"],
            "ratio_to_bound_each_tick": ratio["environment_each_tick"],
            **{f"{k}_over_bare": v for k, v in ratio.items()},
            **{f"{k}_steps_per_core_s": v for k, v in rate.items()},
        }
        print(f"\n{name}: {options.worlds} worlds, expert actions, mujoco {mujoco.__version__}")
        print(f"{'median of ' + str(options.rounds) + ' rounds':24s}{'control steps / core-s':>24s}{'of bare':>10s}")
        for contender in found:
            print(f"{contender:24s}{rate[contender]:24,.0f}{ratio[contender]:10.0%}")
    scaling = thread_scaling("insert", options.worlds)
    print(f"\ntwo threads against two bare processes (wall clock): {scaling:.0%}")
    if options.json:
        summary = {
            "tasks": report,
            "min_ratio_to_bound": min(r["ratio_to_bound"] for r in report.values()),
            "control_steps_per_core_s": min(r["control_steps_per_core_s"] for r in report.values()),
            "thread_scaling": scaling,
            "mujoco": mujoco.__version__,
        }
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
