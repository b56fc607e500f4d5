"""What every environment must do. Inherit and give `make_environment`; dm_env's mixin idea."""

import multiprocessing
from dataclasses import replace

import numpy as np
import pytest

from robotrl.errors import RobotRLError
from robotrl.interfaces import Branching, Environment
from robotrl.rollout.loop import Execution, Origin, Rollout, hold_action
from robotrl.specs import EnvironmentSpec, spec_from_json
from robotrl.types import ActionChunk, Branch, Committed, Observation, Snapshot, Transition

SEEDS = np.array([1_000_007, 1_000_021, 1_000_003, 1_000_040, 1_000_011])


def same(left: Observation, right: Observation) -> None:
    """Bit-equal observations."""
    np.testing.assert_array_equal(left.state, right.state)
    np.testing.assert_array_equal(left.privileged, right.privileged)
    np.testing.assert_array_equal(left.physics, right.physics)
    np.testing.assert_array_equal(left.tick, right.tick)
    np.testing.assert_array_equal(left.time_ns, right.time_ns)


def wiggle(spec: EnvironmentSpec, observation: Observation, ticks: int, size: float = 0.01) -> np.ndarray:
    """Actions (N, ticks, A) that stray by `size` of their range a tick from the measured values of the same name."""
    names = list(spec.state.elements)
    low, high = np.float32(spec.action.low), np.float32(spec.action.high)
    here = np.stack(
        [
            observation.state[:, names.index(e)] if e in names else np.full(len(observation.tick), (a + b) / 2)
            for e, a, b in zip(spec.action.elements, low, high, strict=True)
        ],
        axis=-1,
    )
    path = np.cumsum(np.random.default_rng(3).normal(size=(ticks, len(low))), axis=0)
    return spec.action.clip(here[:, None] + size * (high - low) * path)


class Wiggling:
    """Chunks that stray from where the robot is, each in its own way."""

    history, chunk_length, cameras, version = 1, 8, (), 1

    def __init__(self, spec: EnvironmentSpec) -> None:
        self._spec = spec

    def propose(self, observation: Observation, rows: np.ndarray, committed: Committed, rng: list) -> ActionChunk:
        held = hold_action(self._spec, observation.state[:, -1])
        span = np.float32(self._spec.action.high) - np.float32(self._spec.action.low)
        noise = np.stack([r.standard_normal((8, self._spec.action.size)) for r in rng]).astype(np.float32)
        actions = self._spec.action.clip(held[:, None] + 0.01 * span * np.cumsum(noise, axis=1))
        return ActionChunk(rows, actions, observation.tick, self.version)


def run_in_a_fresh_process(contract: "type[EnvironmentContract]", snapshot: Snapshot, actions: np.ndarray) -> tuple:
    """Restore `snapshot` into a new environment and step it; called by `spawn`."""
    environment = contract().make_environment(len(actions))
    everyone = np.ones(len(actions), np.bool_)
    first = environment.restore(snapshot, everyone)
    last = environment.step(actions, everyone)
    environment.close()
    return first, last.state, last.physics, last.observation


class EnvironmentContract:
    """Subclasses say how to build the environment; a subclass must be importable by a fresh process."""

    def make_environment(self, worlds: int) -> Environment:
        raise NotImplementedError

    @pytest.fixture
    def five(self):
        environment = self.make_environment(5)
        yield environment
        environment.close()

    def started(self, environment: Environment) -> Observation:
        return environment.reset(SEEDS[: environment.worlds], np.ones(environment.worlds, np.bool_))

    def test_it_satisfies_the_protocol_and_its_spec_survives_json(self, five: Environment):
        assert isinstance(five, Environment)
        assert five.worlds == 5
        assert spec_from_json(five.spec.to_json()) == five.spec
        observation = self.started(five)
        assert observation.state.shape == (5, five.spec.state.size)
        assert observation.state.dtype == np.float32
        assert observation.privileged is not None
        assert observation.privileged.shape == (5, five.spec.privileged.size)
        assert len(observation.instruction) == 5

    def test_a_start_depends_on_its_seed_alone(self, five: Environment):
        together = self.started(five)
        backwards = five.reset(SEEDS[::-1].copy(), np.ones(5, np.bool_))
        np.testing.assert_array_equal(together.state[::-1], backwards.state)
        alone = self.make_environment(1)
        for i, seed in enumerate(SEEDS[:2]):
            np.testing.assert_array_equal(
                alone.reset(np.array([seed]), np.ones(1, np.bool_)).state[0], together.state[i]
            )
        alone.close()
        assert len(np.unique(together.state, axis=0)) == 5

    def test_reset_leaves_the_other_worlds_alone(self, five: Environment):
        self.started(five)
        before = five.step(wiggle(five.spec, self.started(five), 3), np.ones(5, np.bool_)).observation
        after = five.reset(SEEDS + 100, np.array([False, True, False, False, True]))
        same(before.take(np.array([0, 2, 3])), after.take(np.array([0, 2, 3])))
        assert after.tick.tolist() == [3, 0, 3, 3, 0]

    def test_masked_worlds_do_not_move(self, five: Environment):
        start = self.started(five)
        actions = wiggle(five.spec, start, 4)
        moving = np.array([True, False, True, False, False])
        transition = five.step(actions, moving)
        still = np.flatnonzero(~moving)
        same(start.take(still), transition.observation.take(still))
        assert not transition.valid[still].any()
        assert transition.valid[moving].all()
        assert transition.observation.tick.tolist() == [4, 0, 4, 0, 0]
        # Moving with the others or without them makes no difference.
        self.started(five)
        np.testing.assert_array_equal(five.step(actions, np.ones(5, np.bool_)).state[moving], transition.state[moving])

    def test_rows_of_a_transition_agree_with_its_observation(self, five: Environment):
        actions = wiggle(five.spec, self.started(five), 4)
        transition = five.step(actions, np.ones(5, np.bool_))
        assert transition.state.shape == (5, 4, five.spec.state.size)
        assert transition.actions.shape == actions.shape
        np.testing.assert_array_equal(transition.state[:, -1], transition.observation.state)
        np.testing.assert_array_equal(transition.physics[:, -1], transition.observation.physics)
        np.testing.assert_array_equal(transition.clamped > 0, (transition.actions != actions).any(-1))

    @pytest.mark.parametrize("split", [(12,), (1,) * 12, (5, 4, 3)])
    def test_splitting_into_calls_changes_no_bit(self, five: Environment, split: tuple[int, ...]):
        actions = wiggle(five.spec, self.started(five), 12)
        whole = five.step(actions, np.ones(5, np.bool_))
        self.started(five)
        ends = np.cumsum(split)
        parts = [five.step(actions[:, e - k : e], np.ones(5, np.bool_)) for e, k in zip(ends, split, strict=True)]
        for name in ("state", "privileged", "physics", "reward", "success", "actions"):
            joined = np.concatenate([getattr(p, name) for p in parts], axis=1)
            np.testing.assert_array_equal(joined, getattr(whole, name), err_msg=name)

    def test_the_number_of_worlds_changes_no_bit(self, five: Environment):
        actions = wiggle(five.spec, self.started(five), 12)
        whole = five.step(actions, np.ones(5, np.bool_))
        two = self.make_environment(2)
        two.reset(SEEDS[3:], np.ones(2, np.bool_))
        np.testing.assert_array_equal(two.step(actions[3:], np.ones(2, np.bool_)).state, whole.state[3:])
        two.close()

    def test_an_episode_stops_at_the_horizon_inside_a_call(self, five: Environment):
        start = self.started(five)
        horizon = five.spec.horizon
        actions = np.repeat(wiggle(five.spec, start, 1), horizon + 7, axis=1)
        transition = five.step(actions, np.ones(5, np.bool_))
        for world in range(5):
            assert self.stops_once(transition, world)
            assert transition.failure[world] == "timeout" or transition.terminated[world].any()
            assert transition.valid[world].sum() == transition.observation.tick[world] <= horizon
            last = int(transition.valid[world].sum()) - 1
            np.testing.assert_array_equal(
                transition.state[world, last:], transition.state[world, -1:].repeat(horizon + 7 - last, axis=0)
            )
        assert (transition.failure.count("timeout")) == transition.truncated.any(1).sum() > 0
        with pytest.raises(RobotRLError, match="ended"):
            five.step(actions[:, :1], np.ones(5, np.bool_))

    @staticmethod
    def stops_once(transition: Transition, world: int) -> bool:
        over = transition.terminated[world] | transition.truncated[world]
        last = int(transition.valid[world].sum()) - 1
        return bool(over.sum() == 1 and over[last] and transition.valid[world, : last + 1].all())

    def test_a_snapshot_goes_on_bit_exactly(self, five: Environment):
        actions = wiggle(five.spec, self.started(five), 9)
        five.step(actions[:, :4], np.ones(5, np.bool_))
        chosen = np.array([False, True, True, False, True])
        snapshot = five.snapshot(chosen)
        expected = five.step(actions[:, 4:], np.ones(5, np.bool_))
        restored = five.restore(snapshot, chosen)
        assert restored.tick.tolist() == [9, 4, 4, 9, 4]
        again = five.step(actions[:, 4:], chosen)
        for name in ("state", "privileged", "physics", "reward", "success"):
            np.testing.assert_array_equal(getattr(again, name)[chosen], getattr(expected, name)[chosen])
        same(again.observation, expected.observation)

    def test_a_snapshot_goes_on_bit_exactly_in_a_fresh_process(self, five: Environment):
        actions = wiggle(five.spec, self.started(five), 9)
        before = five.step(actions[:, :4], np.ones(5, np.bool_)).observation
        snapshot = five.snapshot(np.ones(5, np.bool_))
        expected = five.step(actions[:, 4:], np.ones(5, np.bool_))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            first, state, physics, last = pool.apply(run_in_a_fresh_process, (type(self), snapshot, actions[:, 4:]))
        same(first, before)
        np.testing.assert_array_equal(state, expected.state)
        np.testing.assert_array_equal(physics, expected.physics)
        same(last, expected.observation)

    def test_a_snapshot_of_something_else_is_refused(self, five: Environment):
        self.started(five)
        snapshot = five.snapshot(np.ones(5, np.bool_))
        with pytest.raises(RobotRLError, match="snapshot"):
            five.restore(replace(snapshot, fingerprint="0" * 12), np.ones(5, np.bool_))
        with pytest.raises(RobotRLError, match="snapshot"):
            five.restore(snapshot, np.array([True, False, False, False, False]))

    def test_a_stored_episode_goes_on_bit_exactly_from_any_tick(self, five: Environment):
        if not isinstance(five, Branching):
            pytest.skip("it cannot go on from stored states")
        rollout = Rollout(five, Wiggling(five.spec), Execution(execute=4), Origin("run", "rollouts"))
        parent = next(iter(rollout.run(SEEDS[:5])))
        chosen = np.array([False, False, True, False, False])
        for tick in (0, 1, parent.length // 2, parent.length - 1):
            observation = five.restore(five.snapshot_of(Branch(parent, tick)), chosen)
            np.testing.assert_array_equal(observation.state[2], parent.state[tick])
            assert observation.instruction[2] == parent.meta.instruction
            rest = np.repeat(parent.action_requested[None, tick:], 5, axis=0)
            transition = five.step(rest, chosen)
            for name in ("state", "privileged", "physics"):
                np.testing.assert_array_equal(getattr(transition, name)[2], getattr(parent, name)[tick + 1 :])
            for name in ("reward", "success", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(transition, name)[2], getattr(parent, name)[tick:])
        with pytest.raises(RobotRLError, match="was recorded in environment"):
            five.snapshot_of(Branch(replace(parent, meta=replace(parent.meta, environment="0" * 12)), 1))

    def test_bad_calls_say_what_was_expected_and_move_nothing(self, five: Environment):
        everyone = np.ones(5, np.bool_)
        with pytest.raises(RobotRLError, match="never reset"):
            five.step(np.zeros((5, 1, five.spec.action.size), np.float32), everyone)
        start = self.started(five)
        actions = wiggle(five.spec, start, 2)
        for bad in (actions[:4], actions[:, 0], actions[:, :0], actions[..., 1:]):
            with pytest.raises(RobotRLError, match="actions: expected shape"):
                five.step(bad, everyone)
        poisoned = actions.copy()
        poisoned[2, 1, 0] = np.nan
        with pytest.raises(RobotRLError, match=five.spec.action.elements[0]):
            five.step(poisoned, everyone)
        with pytest.raises(RobotRLError, match="mask"):
            five.step(actions, np.ones(4, np.bool_))
        with pytest.raises(RobotRLError, match="mask"):
            five.step(actions, everyone, np.ones(4, np.bool_))
        with pytest.raises(RobotRLError, match="mask"):
            five.reset(SEEDS, np.ones(5))
        with pytest.raises(RobotRLError, match="seeds"):
            five.reset(SEEDS[:4], everyone)
        same(five.step(actions, np.zeros(5, np.bool_)).observation, start)

    def test_bad_actions_of_masked_worlds_do_not_matter(self, five: Environment):
        actions = wiggle(five.spec, self.started(five), 1)
        actions[0] = np.nan
        assert five.step(actions, np.array([False, True, True, True, True])).valid[1:].all()

    def test_no_worlds_is_an_error(self):
        with pytest.raises(RobotRLError, match="worlds"):
            self.make_environment(0)

    def test_closing_twice_is_fine(self):
        environment = self.make_environment(1)
        environment.close()
        environment.close()
