"""The experts solve their tasks, from the start and from wherever somebody left them."""

import numpy as np
import pytest

from robotrl.errors import ConfigurationError, DataError
from robotrl.seeds import seed_range
from robotrl.types import Committed
from sim.environment import MujocoEnvironment
from sim.experts import Expert, ExpertPolicy
from sim.tasks.base import Task
from sim.tasks.bimanual_insert import BimanualInsert
from sim.tasks.conveyor import Conveyor
from sim.tasks.drawer import Drawer
from sim.tasks.handover import Handover
from sim.tasks.insert import Insert
from sim.tasks.pick_place import PickPlace
from sim.tasks.reach import Reach
from sim.tasks.sort import Sort
from sim.tasks.stack import Stack
from tests.contracts.environment import wiggle

TASKS = [
    Insert(),
    Insert(clearance_m=0.001),
    PickPlace(),
    Reach(),
    Stack(),
    Sort(combinations="all"),
    Conveyor(),
    Drawer(),
    Handover(),
    BimanualInsert(),
]


PAIRS = [(task, robot) for task in TASKS for robot in task.robots]


def name_of(part: Task | str) -> str:
    return part if isinstance(part, str) else part.name + ("_1mm" if part == TASKS[1] else "")


def drive(env: MujocoEnvironment, expert: Expert, observation, mask: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Run the expert in the worlds `mask` to their ends; reasons ("" for success) and ticks."""
    mask = mask.copy()
    reasons = ["not run"] * env.worlds
    while mask.any():
        rows = np.flatnonzero(mask)
        actions = np.zeros((env.worlds, 1, env.spec.action.size), np.float32)
        actions[rows, 0] = expert.act(observation, rows)
        transition = env.step(actions, mask)
        observation = transition.observation
        for row in np.flatnonzero((transition.terminated | transition.truncated)[:, 0]):
            reasons[row] = transition.failure[row]
            mask[row] = False
    return reasons, observation.tick


def solve(task: Task, robot: str, count: int) -> tuple[list[str], np.ndarray]:
    """Reasons ("" for success) and seconds of `count` starts."""
    env = MujocoEnvironment(task, count, robot=robot)
    expert = Expert(env.spec, count)
    seeds, everyone = seed_range("validation").block(count), np.ones(count, np.bool_)
    expert.reset(np.arange(count), seeds)
    reasons, ticks = drive(env, expert, env.reset(seeds, everyone), everyone)
    return reasons, ticks / env.spec.control_hz


@pytest.mark.parametrize(("task", "robot"), PAIRS, ids=name_of)
def test_the_expert_solves_twenty_starts(task: Task, robot: str):
    reasons, seconds = solve(task, robot, 20)
    assert reasons.count("") >= 19
    assert seconds.mean() < (12.5 if task.name == "drawer" else 6.25)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "robot"), PAIRS, ids=name_of)
def test_the_expert_solves_at_least_98_percent_of_200_starts(task: Task, robot: str):
    reasons, _ = solve(task, robot, 200)
    assert reasons.count("") >= 196


@pytest.mark.parametrize(
    ("task", "robot"), [pair for pair in PAIRS if pair[0] not in (TASKS[1], TASKS[3])], ids=name_of
)
def test_the_expert_takes_over_at_any_moment(task: Task, robot: str):
    count = 24
    env = MujocoEnvironment(task, count, robot=robot)
    expert = Expert(env.spec, count)
    seeds, everyone = seed_range("validation").block(count), np.ones(count, np.bool_)
    expert.reset(np.arange(count), seeds)
    observation = env.reset(seeds, everyone)
    # World i is driven well for i strides and badly for 8 ticks, so that somebody is disturbed in every phase.
    mask, stride = everyone.copy(), round(env.spec.control_hz * (0.2 if env.spec.robot == "aloha" else 0.1))
    for tick in range(stride * count + 8):
        good, bad = mask & (tick < stride * np.arange(count)), mask & (tick >= stride * np.arange(count))
        bad &= tick < stride * np.arange(count) + 8
        actions = wiggle(env.spec, observation, 1, size=0.003)
        rows = np.flatnonzero(good)
        actions[rows, 0] = expert.act(observation, rows)
        transition = env.step(actions, good | bad)
        observation = transition.observation
        mask &= ~(transition.terminated | transition.truncated)[:, 0]
    reasons, _ = drive(env, expert, observation, mask)
    driven = [r for r in reasons if r != "not run"]
    assert len(driven) >= count - 4
    # An object that fell over or out of reach cannot be had back.
    assert driven.count("") + driven.count("tipped") + driven.count("out_of_reach") == len(driven)
    assert driven.count("") >= 0.7 * len(driven)


def test_noise_depends_on_seed_and_tick_alone():
    env = MujocoEnvironment(Insert(), 3)
    observation = env.reset(seed_range("train").block(3), np.ones(3, np.bool_))
    left, right = Expert(env.spec, 3), Expert(env.spec, 3)
    left.reset(np.arange(3), np.array([5, 6, 7]))
    right.reset(np.array([2]), np.array([7]))
    np.testing.assert_array_equal(left.act(observation, np.arange(3))[2], right.act(observation, np.array([2]))[0])
    right.reset(np.array([2]), np.array([8]))
    assert (left.act(observation, np.array([2])) != right.act(observation, np.array([2]))).any()


def test_the_policy_adapter_proposes_the_same_without_noise():
    env = MujocoEnvironment(Insert(), 2)
    observation = env.reset(seed_range("train").block(2), np.ones(2, np.bool_))
    quiet = Expert(env.spec, 2, noise_m=0.0, noise_rad=0.0)
    quiet.reset(np.arange(2), np.array([1, 2]))
    policy = ExpertPolicy(quiet)
    stacked = type(observation)(**{**vars(observation), "state": observation.state[:, None]})
    nothing = Committed(np.zeros((2, 0, 8), np.float32), np.zeros(2, np.int64))
    chunk = policy.propose(stacked, np.arange(2), nothing, [np.random.default_rng(i) for i in range(2)])
    np.testing.assert_array_equal(chunk.actions[:, 0], quiet.act(observation, np.arange(2)))


def test_an_unknown_task_names_the_nearest_expert():
    env = MujocoEnvironment(Insert(), 1)
    spec = type(env.spec)(**{**vars(env.spec), "task": "inserr"})
    with pytest.raises(ConfigurationError, match="Did you mean 'insert'"):
        Expert(spec, 1)


def test_an_observation_of_other_worlds_is_refused():
    env = MujocoEnvironment(Insert(), 2)
    observation = env.reset(seed_range("train").block(2), np.ones(2, np.bool_))
    with pytest.raises(DataError, match="3 worlds"):
        Expert(env.spec, 3).act(observation, np.arange(2))
