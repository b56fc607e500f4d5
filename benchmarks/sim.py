"""How fast is the simulation? Control steps per core-second against bare MuJoCo and Gymnasium's vector environments.

Every contender replays the same expert actions from the same starts with the same physics options. *bare* is a loop
over `mj_step` that reads nothing: the bound. *engine* adds threads and divergence checks; *environment* adds what the
platform needs: limits, observations, rewards, successes, endings. The Gymnasium peers are the thinnest environment of
the task that one would write by hand: one `MjData` a world, poses read from MuJoCo, a scalar success test, no
rewards. Rates count the processor time of all processes and threads, so that other work on the machine matters less.
Threads are measured on the wall clock, against two processes that replay half of the worlds each, as *bare*.
`image_steps_per_core_s` is the environment's rate on `insert` for a policy that sees pictures: one of 64 x 64 pixels of
every world every 16 ticks, in the profile `fast`, drawn on the CPU where there is no graphics card.

    uv run python benchmarks/sim.py          # a table for every task and robot
    uv run python benchmarks/sim.py --json   # and one line of JSON at the end

In the JSON, a task on the first of its robots is called `task`, on another one `task/robot`.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

# Python puts this folder first, where this very file would hide the package `sim`: move it to the end.
sys.path.sort(key=lambda folder: Path(folder).resolve() == Path(__file__).resolve().parent)

import gymnasium
import mujoco
import numpy as np

from robotrl.seeds import seed_range
from robotrl.specs import CameraSpec
from robotrl.types import Float32, Float64
from sim import scene
from sim.engine import Engine
from sim.environment import MujocoEnvironment
from sim.experts import Expert
from sim.robots import PANDA, robot_called
from sim.tasks import PAIRS, TASKS, Task

CHUNK = 8
"""Ticks between two looks at the policy in the main job."""
IMAGE_TASK, IMAGE_CHUNK = "insert", 16
"""Where pictures are measured, and ticks between two of them."""
CAMERA = CameraSpec("front", 64, 64, "fast")
LONGEST = 96
"""Ticks to replay, at most."""
BY_HAND = ("insert", "pick_place")
"""Tasks that `GymnasiumTask` is written for, on the panda."""

Contender = tuple[Callable[[], None], int, tuple[int, ...]]
"""What to run, how many control steps that is, and the processes beside this one that do it."""


@dataclass(frozen=True)
class Replay:
    """What everybody replays: `starts` (N, X) and executed `actions` (N, T, A) of worlds that all run to the end."""

    task: Task
    robot: str
    seeds: np.ndarray
    starts: Float64
    actions: Float32

    @property
    def steps(self) -> int:
        return self.actions.shape[0] * self.actions.shape[1]

    @property
    def controls(self) -> Float64:
        return robot_called(self.robot).controls(self.actions)

    def part(self, worlds: slice) -> "Replay":
        return replace(self, seeds=self.seeds[worlds], starts=self.starts[worlds], actions=self.actions[worlds])

    def model(self) -> mujoco.MjModel:
        robot = robot_called(self.robot)
        return scene.compile_model(self.task.name, robot, self.task.objects(robot))


def record(task: Task, robot: str, worlds: int) -> Replay:
    """Expert actions until the first world ends, cut to whole chunks."""
    env = MujocoEnvironment(task, worlds, robot=robot)
    expert, rows, everyone = Expert(env.spec, worlds), np.arange(worlds), np.ones(worlds, np.bool_)
    seeds = seed_range("train").block(worlds)
    observation = env.reset(seeds, everyone)
    expert.reset(rows, seeds)
    starts, actions = observation.physics.copy(), []
    while len(actions) < LONGEST:
        transition = env.step(expert.act(observation, rows)[:, None], everyone)
        observation = transition.observation
        if (transition.terminated | transition.truncated).any():
            break
        actions.append(transition.actions[:, 0])
    env.close()
    length = len(actions) // CHUNK * CHUNK
    if not length:
        sys.exit(
            f"{task.name} on {robot}: a world ended after {len(actions)} ticks, before the first {CHUNK} were over"
        )
    return Replay(task, robot, seeds, starts, np.stack(actions, axis=1)[:, :length])


def bare(replay: Replay) -> Callable[[], None]:
    """The bound: nothing but `mj_step`."""
    model, controls, substeps = replay.model(), replay.controls, robot_called(replay.robot).substeps
    data = mujoco.MjData(model)

    def run() -> None:
        for start, path in zip(replay.starts, controls, strict=True):
            mujoco.mj_setState(model, data, start, scene.PHYSICS)
            for control in path:
                data.ctrl[:] = control
                mujoco.mj_step(model, data, substeps)

    return run


def engine(replay: Replay, threads: int = 1) -> Callable[[], None]:
    """The engine alone, one call a chunk."""
    stepper, controls = Engine(replay.model(), threads, robot_called(replay.robot).substeps), replay.controls

    def run() -> None:
        physics = replay.starts
        for k in range(0, controls.shape[1], CHUNK):
            physics = stepper.run(physics, controls[:, k : k + CHUNK])[0][:, -1]

    return run


def environment(replay: Replay, ticks: int, threads: int = 1) -> Callable[[], None]:
    """The environment, `ticks` control ticks a call."""
    worlds = len(replay.seeds)
    env = MujocoEnvironment(replay.task, worlds, threads, replay.robot)
    everyone = np.ones(worlds, np.bool_)

    def run() -> None:
        env.reset(replay.seeds, everyone)
        for k in range(0, replay.actions.shape[1], ticks):
            env.step(replay.actions[:, k : k + ticks], everyone)

    return run


def seeing(replay: Replay) -> tuple[Callable[[], None], MujocoEnvironment]:
    """The environment with a picture of every world at each chunk's start."""
    worlds = len(replay.seeds)
    env = MujocoEnvironment(replay.task, worlds, robot=replay.robot, cameras=[CAMERA])
    everyone, still = np.ones(worlds, np.bool_), np.zeros(worlds, np.bool_)

    def run() -> None:
        env.reset(replay.seeds, everyone)
        env.step(replay.actions[:, :1], still, everyone)  # what the first chunk is proposed from
        for k in range(0, replay.actions.shape[1], IMAGE_CHUNK):
            last = k + IMAGE_CHUNK >= replay.actions.shape[1]
            env.step(replay.actions[:, k : k + IMAGE_CHUNK], everyone, None if last else everyone)

    return run, env


def image_rate(worlds: int, budget_s: float) -> float:
    """Control steps per core-second with pictures."""
    replay = record(TASKS[IMAGE_TASK](), TASKS[IMAGE_TASK].robots[0], worlds)
    run, env = seeing(replay)
    run()  # opens the graphics context
    found = rates({"seeing": (run, replay.steps, ())}, budget_s)["seeing"]
    env.close()
    return float(np.median(found))


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


def rates(contenders: dict[str, Contender], budget_s: float) -> dict[str, np.ndarray]:
    """Control steps per core-second of each, (rounds,), in about `budget_s` of wall time, three rounds at least.

    Within a round everybody runs once, so that a ratio within it is fair when the machine's speed drifts; in an order
    drawn anew, because whoever follows a run on all cores finds them throttled.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    order, begin, rounds = np.random.default_rng(0), time.perf_counter(), 0
    while rounds < 3 or (time.perf_counter() - begin) * (rounds + 1) / rounds < budget_s:
        for name in order.permutation(list(contenders)):
            run, steps, processes = contenders[name]
            start = processor_s(processes)
            run()
            found[name].append(steps / (processor_s(processes) - start))
        rounds += 1
    return {name: np.array(values) for name, values in found.items()}


def measure(replay: Replay, budget_s: float) -> dict[str, np.ndarray]:
    """Rates of all contenders on one task and robot."""
    contenders: dict[str, Contender] = {
        "bare": (bare(replay), replay.steps, ()),
        "engine": (engine(replay), replay.steps, ()),
        "environment": (environment(replay, CHUNK), replay.steps, ()),
        "environment_each_tick": (environment(replay, 1), replay.steps, ()),
    }
    if replay.task.name not in BY_HAND or replay.robot != PANDA.name:
        return rates(contenders, budget_s)
    # One process a world: as many worlds as there could be on a small machine, replayed more than once.
    few = replay.part(slice(4))
    sync, sync_vector = gymnasium_vector(replay, "sync")
    async_, async_vector = gymnasium_vector(few, "async")

    def async_often() -> None:
        for _ in range(8):
            async_()

    workers = tuple(p.pid for p in async_vector.processes)
    contenders["gymnasium_sync"] = sync, replay.steps, ()
    contenders["gymnasium_async"] = async_often, 8 * few.steps, workers
    found = rates(contenders, budget_s)
    sync_vector.close()
    async_vector.close()
    return found


class BareProcesses:
    """Two processes that replay, each half of the worlds, at the same time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.barrier, self._seconds = context.Barrier(3), context.Queue()
        self._work = [context.Queue() for _ in range(2)]
        self._processes = [
            context.Process(target=replay_bare, args=(queue, self.barrier, self._seconds)) for queue in self._work
        ]
        for process in self._processes:
            process.start()

    def give(self, replay: Replay, rounds: int) -> None:
        """Let them replay this so often, each time when the barrier falls."""
        middle = len(replay.seeds) // 2
        for queue, half in zip(self._work, (slice(middle), slice(middle, None)), strict=True):
            queue.put((replay.part(half), rounds))

    def rate(self) -> float:
        """Control steps per second of both together in the next round."""
        self.barrier.wait()
        return sum(self._seconds.get() for _ in self._processes)

    def close(self) -> None:
        for queue, process in zip(self._work, self._processes, strict=True):
            queue.put(None)
            process.join()


def replay_bare(work: "Queue[tuple[Replay, int] | None]", barrier: Barrier, rates: "Queue[float]") -> None:
    """What each of the two processes does."""
    while (job := work.get()) is not None:
        replay, rounds = job
        run = bare(replay)
        run()
        for _ in range(rounds):
            barrier.wait()
            start = time.perf_counter()
            run()
            rates.put(replay.steps / (time.perf_counter() - start))


def thread_scaling(replay: Replay, processes: BareProcesses, rounds: int = 7) -> float:
    """Rate of the environment on two threads over that of two bare processes just before, on the wall clock."""
    run = environment(replay, CHUNK, threads=2)
    run()
    processes.give(replay, rounds)
    ratios = []
    for _ in range(rounds):
        bound = processes.rate()
        start = time.perf_counter()
        run()
        ratios.append(replay.steps / (time.perf_counter() - start) / bound)
    return float(np.median(ratios))


def row(found: dict[str, np.ndarray], scaling: float) -> dict[str, float]:
    """What the JSON says of a task and robot."""
    ratio = {k: float(np.median(v / found["bare"])) for k, v in found.items()}
    rate = {k: float(np.median(v)) for k, v in found.items()}
    return {
        "control_steps_per_core_s": rate["environment"],
        "ratio_to_bound": ratio["environment"],
        "ratio_to_bound_each_tick": ratio["environment_each_tick"],
        "thread_scaling": scaling,
        **{f"{k}_over_bare": v for k, v in ratio.items()},
        **{f"{k}_steps_per_core_s": v for k, v in rate.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120, help="to spend on the rounds of all tasks and robots")
    options = parser.parse_args()
    report: dict[str, dict[str, float]] = {}
    processes = BareProcesses()
    for task, robot in PAIRS:
        replay = record(TASKS[task](), robot, options.worlds)
        found = measure(replay, options.seconds / len(PAIRS))
        scaling = thread_scaling(replay, processes)
        name = task if robot == TASKS[task].robots[0] else f"{task}/{robot}"
        report[name] = figures = row(found, scaling)
        print(f"\n{task} on {robot}: {options.worlds} worlds, expert actions, mujoco {mujoco.__version__}")
        print(
            f"{'median of ' + str(len(found['bare'])) + ' rounds':24s}{'control steps / core-s':>24s}{'of bare':>10s}"
        )
        for contender in found:
            rate, ratio = figures[f"{contender}_steps_per_core_s"], figures[f"{contender}_over_bare"]
            print(f"{contender:24s}{rate:24,.0f}{ratio:10.0%}")
        print(f"two threads against two bare processes (wall clock): {scaling:.0%}", flush=True)
    processes.close()
    image_rate_s = image_rate(options.worlds, options.seconds / len(PAIRS))
    print(
        f"\n{IMAGE_TASK} with a {CAMERA.height} x {CAMERA.width} picture of every world every {IMAGE_CHUNK} ticks: "
        f"{image_rate_s:,.0f} control steps / core-s"
    )
    if options.json:
        peers = ("gymnasium_sync", "gymnasium_async")
        best = {k: max(r[f"{k}_over_bare"] for r in report.values() if f"{k}_over_bare" in r) for k in peers}
        summary = {
            "tasks": report,
            "min_ratio_to_bound": min(r["ratio_to_bound"] for r in report.values()),
            "control_steps_per_core_s": min(r["control_steps_per_core_s"] for r in report.values()),
            "image_steps_per_core_s": image_rate_s,
            "thread_scaling": min(r["thread_scaling"] for r in report.values()),
            "peers": {name: {"ratio_to_bound": ratio} for name, ratio in best.items()},
            "mujoco": mujoco.__version__,
        }
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
