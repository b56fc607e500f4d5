"""The environment contract for the tasks, and what is particular to MuJoCo worlds."""

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from robotrl.seeds import seed_range
from sim.environment import MujocoEnvironment
from sim.experts import Expert
from sim.perception import PoseNoise
from sim.scene import control_slice
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
from tests.contracts.environment import EnvironmentContract, same, wiggle
from tests.sim.test_randomisation import WIDE


class TestInsert(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(Insert(time_limit_s=2.0), worlds)


class TestPickPlaceOnTwoThreads(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(PickPlace(time_limit_s=2.0), worlds, threads=2)


class TestPickPlaceOnSO101(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(PickPlace(time_limit_s=2.0), worlds, robot="so101", randomisation=WIDE)


class TestReach(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(Reach(time_limit_s=2.0), worlds)


class TestStack(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(Stack(time_limit_s=2.0), worlds)


class TestSort(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(Sort(time_limit_s=2.0), worlds)


class TestConveyor(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(Conveyor(time_limit_s=2.0), worlds)


class TestDrawer(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(Drawer(time_limit_s=2.0), worlds)


class TestHandover(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(Handover(time_limit_s=2.0), worlds, randomisation=WIDE)


class TestBimanualInsert(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        noise = PoseNoise(position_m=0.001, yaw_rad=0.01, delay_ticks=2)
        return MujocoEnvironment(BimanualInsert(time_limit_s=2.0), worlds, noise=noise, threads=2)


class TestNoisyAndLatePoses(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        noise = PoseNoise(position_m=0.002, yaw_rad=0.02, delay_ticks=3)
        return MujocoEnvironment(Insert(time_limit_s=2.0), worlds, noise=noise)


class TestWorldsThatDiffer(EnvironmentContract):
    def make_environment(self, worlds: int) -> MujocoEnvironment:
        return MujocoEnvironment(Insert(time_limit_s=2.0), worlds, threads=2, randomisation=WIDE)


def whole_episodes(task: Task, worlds: int, threads: int, count: int) -> tuple[list[np.ndarray], list[str]]:
    """States of `count` expert episodes, run in batches of `worlds`, and why each ended."""
    env = MujocoEnvironment(task, worlds, threads)
    states, reasons = [], []
    for batch in np.split(seed_range("train").block(count), range(worlds, count, worlds)):
        mask = np.arange(worlds) < len(batch)
        seeds = np.resize(batch, worlds)
        expert = Expert(env.spec, worlds)
        observation = env.reset(seeds, mask)
        expert.reset(np.flatnonzero(mask), batch)
        path = [[s] for s in observation.state]
        while mask.any():
            rows = np.flatnonzero(mask)
            actions = np.zeros((worlds, 1, env.spec.action.size), np.float32)
            actions[rows, 0] = expert.act(observation, rows)
            transition = env.step(actions, mask)
            observation = transition.observation
            for row in rows:
                path[row].append(observation.state[row])
            mask &= ~(transition.terminated | transition.truncated)[:, 0]
            reasons += [transition.failure[r] for r in rows if not mask[r]]
        states += [np.array(p) for p in path[: len(batch)]]
    env.close()
    return states, reasons


@pytest.mark.parametrize(("worlds", "threads"), [(1, 1), (7, 2)])
def test_whole_episodes_have_the_same_bits_for_any_worlds_and_threads(worlds: int, threads: int):
    expected, _ = whole_episodes(Insert(), 4, 1, 4)
    found, _ = whole_episodes(Insert(), worlds, threads, 4)
    for left, right in zip(expected, found, strict=True):
        np.testing.assert_array_equal(left, right)


def test_success_must_hold_for_half_a_second_and_is_reported_per_tick():
    env = MujocoEnvironment(Insert(), 1)
    expert = Expert(env.spec, 1)
    everyone = np.ones(1, np.bool_)
    observation = env.reset(seed_range("train").block(1), everyone)
    success, over = [], False
    while not over:
        transition = env.step(expert.act(observation, np.arange(1))[:, None], everyone)
        observation, over = transition.observation, bool(transition.terminated[0, 0])
        success.append(bool(transition.success[0, 0]))
    assert success[-10:] == [True] * 10
    assert transition.failure == ("",)
    assert transition.reward[0, 0] == 1.0


def test_success_inside_a_long_call_stops_there():
    env = MujocoEnvironment(Insert(), 1)
    expert = Expert(env.spec, 1)
    everyone = np.ones(1, np.bool_)
    observation = env.reset(seed_range("train").block(1), everyone)
    checkpoint = env.spec.privileged.elements.index("checkpoint.seated")
    while not observation.privileged[0, checkpoint]:
        observation = env.step(expert.act(observation, np.arange(1))[:, None], everyone).observation
    action = expert.act(observation, np.arange(1))
    action[:, -1] = 0.07
    transition = env.step(np.repeat(action[:, None], 40, axis=1), everyone)
    assert transition.terminated.sum() == 1
    last = int(transition.valid.sum()) - 1
    assert last < 39
    assert transition.terminated[0, last]
    same(env.restore(env.snapshot(everyone), everyone), transition.observation)


def test_a_world_that_diverges_ends_as_a_failure_in_its_last_sound_state():
    env = MujocoEnvironment(Insert(), 2)
    everyone = np.ones(2, np.bool_)
    start = env.reset(seed_range("train").block(2), everyone)
    snapshot = env.snapshot(everyone)
    snapshot.physics[1, 1 + env.model.nq + 1] = 1e7
    env.restore(snapshot, everyone)
    transition = env.step(wiggle(env.spec, start, 3), everyone)
    assert transition.failure == ("", "diverged")
    assert transition.terminated.tolist() == [[False] * 3, [True, False, False]]
    assert np.isfinite(transition.state).all()


# What is measured of such a state is not a number either.
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e12])
@pytest.mark.parametrize("part", ["position", "velocity", "mocap"])
def test_whatever_is_out_of_bounds_ends_its_world_and_the_others_go_on_to_the_bit(part: str, bad: float):
    env, alone = MujocoEnvironment(Insert(), 3), MujocoEnvironment(Insert(), 3)
    everyone, seeds = np.ones(3, np.bool_), seed_range("train").block(3)
    start = env.reset(seeds, everyone)
    alone.reset(seeds, everyone)
    snapshot = env.snapshot(everyone)
    column = {"position": 1, "velocity": 1 + env.model.nq, "mocap": control_slice(env.model).stop}[part]
    snapshot.physics[1, column] = bad
    env.restore(snapshot, everyone)
    actions = wiggle(env.spec, start, 4)
    transition, expected = env.step(actions, everyone), alone.step(actions, everyone)
    assert transition.failure == ("", "diverged", "")
    assert transition.valid.sum(1).tolist() == [4, 1, 4]
    others = np.array([0, 2])
    for name in ("state", "privileged", "physics", "reward"):
        np.testing.assert_array_equal(getattr(transition, name)[others], getattr(expected, name)[others])
    still = env.step(actions, np.array([True, False, True]))
    np.testing.assert_array_equal(still.physics[others], alone.step(actions, everyone).physics[others])


def test_huge_actions_are_clipped_and_move_no_world_out_of_bounds():
    env = MujocoEnvironment(Insert(), 2)
    everyone = np.ones(2, np.bool_)
    env.reset(seed_range("train").block(2), everyone)
    actions = np.full((2, 3, env.spec.action.size), 1e30, np.float32)
    actions[1] *= -1.0
    transition = env.step(actions, everyone)
    assert transition.clamped.all()
    assert transition.valid.all()
    np.testing.assert_array_equal(transition.actions, env.spec.action.clip(transition.actions))


def test_joint_targets_obey_the_velocity_limits():
    env = MujocoEnvironment(Insert(), 1)
    start = env.reset(seed_range("train").block(1), np.ones(1, np.bool_))
    far = start.state[:, None, :8].repeat(3, axis=1)
    far[..., 0] += 1.0
    transition = env.step(far, np.ones(1, np.bool_))
    np.testing.assert_allclose(np.diff(transition.actions[0, :, 0]), 2.175 * 0.05, rtol=1e-5)
    assert transition.clamped.tolist() == [[1, 1, 1]]


def test_a_cube_on_the_conveyor_keeps_the_belts_speed_until_it_is_out_of_reach():
    env = MujocoEnvironment(Conveyor(time_limit_s=30.0), 4)
    everyone = np.ones(4, np.bool_)
    start = env.reset(seed_range("train").block(4), everyone)
    y, belt = (env.spec.state.elements.index(name) for name in ("cube.y", "belt.speed"))
    still = np.repeat(start.state[:, None, :8], 20, axis=1)
    speed = start.state[:, belt]
    assert (speed > 0.03).all() and len(set(speed.tolist())) == 4
    transition = env.step(still, everyone)
    np.testing.assert_allclose(transition.state[:, -1, y] - start.state[:, y], speed, rtol=0.02)
    np.testing.assert_allclose(transition.state[:, -1, belt], speed, rtol=1e-3)
    reasons = [""] * 4
    running = everyone.copy()
    while running.any():
        transition = env.step(still, running)
        reasons = [new or old for new, old in zip(transition.failure, reasons, strict=True)]
        running &= ~(transition.terminated | transition.truncated).any(1)
    assert reasons == ["out_of_reach"] * 4


def test_noise_spoils_the_state_but_neither_the_world_nor_the_start():
    exact = MujocoEnvironment(Insert(), 3)
    noisy = MujocoEnvironment(Insert(), 3, noise=PoseNoise(position_m=0.003))
    everyone, seeds = np.ones(3, np.bool_), seed_range("train").block(3)
    left, right = exact.reset(seeds, everyone), noisy.reset(seeds, everyone)
    np.testing.assert_array_equal(left.physics, right.physics)
    peg = exact.spec.state.slice("peg")
    assert 0.0003 < np.abs(left.state[:, peg] - right.state[:, peg])[:, :3].mean() < 0.01
    np.testing.assert_array_equal(left.state[:, :8], right.state[:, :8])
    actions = wiggle(exact.spec, left, 5)
    np.testing.assert_array_equal(exact.step(actions, everyone).physics, noisy.step(actions, everyone).physics)


def test_delay_reports_the_poses_of_earlier_ticks():
    env = MujocoEnvironment(Insert(), 1, noise=PoseNoise(delay_ticks=2))
    exact = MujocoEnvironment(Insert(), 1)
    everyone, seeds = np.ones(1, np.bool_), seed_range("train").block(1)
    env.reset(seeds, everyone)
    start = exact.reset(seeds, everyone)
    # Drop the peg from a height, so that its pose changes at every tick.
    for environment in (env, exact):
        snapshot = environment.snapshot(everyone)
        address = environment.spec.scene.frames[environment.spec.scene.frame("peg")].address
        snapshot.physics[0, address + 2] = 0.2
        environment.restore(snapshot, everyone)
    actions = wiggle(exact.spec, start, 6)
    height = exact.spec.state.elements.index("peg.z")
    late = env.step(actions, everyone).state[0, :, height]
    true = exact.step(actions, everyone).state[0, :, height]
    np.testing.assert_array_equal(late[3:], true[1:-2])


@pytest.mark.parametrize("arguments", [{"position_m": -0.1}, {"delay_ticks": -1}])
def test_negative_noise_is_refused(arguments: dict[str, float]):
    with pytest.raises(ConfigurationError, match="0 or more"):
        PoseNoise(**arguments)


def test_another_task_has_another_fingerprint_and_refuses_the_snapshot():
    loose, tight = MujocoEnvironment(Insert(), 1), MujocoEnvironment(Insert(clearance_m=0.001), 1)
    assert loose.spec.fingerprint != tight.spec.fingerprint
    loose.reset(np.array([1]), np.ones(1, np.bool_))
    with pytest.raises(Exception, match="same task"):
        tight.restore(loose.snapshot(np.ones(1, np.bool_)), np.ones(1, np.bool_))
