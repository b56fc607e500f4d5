"""What every policy must do. Inherit and give `make_policy`, `make_observation`; dm_env's mixin idea."""

import copy
from collections.abc import Sequence

import numpy as np
import pytest

from robotrl import seeds
from robotrl.interfaces import Policy
from robotrl.specs import EnvironmentSpec
from robotrl.types import ActionChunk, Committed, Observation


class PolicyContract:
    """Subclasses say how to build the policy and, where states must be special, what it sees."""

    def make_policy(self) -> tuple[Policy, EnvironmentSpec]:
        raise NotImplementedError

    def make_states(self, spec: EnvironmentSpec, worlds: int) -> np.ndarray:
        """(worlds, S) states the policy can handle."""
        rng = np.random.default_rng(0)
        return rng.uniform(-1, 1, (worlds, spec.state.size)).astype(np.float32)

    @pytest.fixture
    def made(self) -> tuple[Policy, EnvironmentSpec]:
        return self.make_policy()

    def test_it_satisfies_the_protocol(self, made: tuple[Policy, EnvironmentSpec]):
        policy, spec = made
        assert isinstance(policy, Policy)
        assert policy.history >= 1
        assert policy.chunk_length >= 1
        spec.require_cameras(policy.cameras, "the policy")

    def test_a_chunk_has_a_row_a_tick_and_belongs_to_what_was_observed(self, made: tuple[Policy, EnvironmentSpec]):
        policy, spec = made
        chunk, observation = self.propose(policy, spec, 5)
        assert chunk.actions.shape == (5, policy.chunk_length, spec.action.size)
        assert chunk.actions.dtype == np.float32
        np.testing.assert_array_equal(chunk.observed_tick, observation.tick)
        np.testing.assert_array_equal(chunk.rows, 10 + np.arange(5))
        assert chunk.policy_version == policy.version
        assert chunk.noise is None or chunk.noise.shape == chunk.actions.shape

    def test_actions_are_finite_and_inside_the_bounds(self, made: tuple[Policy, EnvironmentSpec]):
        policy, spec = made
        actions = self.propose(policy, spec, 40)[0].actions
        assert np.isfinite(actions).all()
        np.testing.assert_array_equal(actions, spec.action.clip(actions))

    def test_equal_inputs_give_equal_bits(self, made: tuple[Policy, EnvironmentSpec]):
        policy, spec = made
        first, second = (self.propose(policy, spec, 7)[0].actions for _ in range(2))
        np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("worlds", [1, 7, 64])
    def test_a_world_does_not_depend_on_its_companions(self, made: tuple[Policy, EnvironmentSpec], worlds: int):
        policy, spec = made
        alone = [self.propose(policy, spec, 64, pick=[world])[0].actions[0] for world in range(0, worlds, 9)]
        together = self.propose(policy, spec, 64, pick=list(range(worlds)))[0].actions
        np.testing.assert_array_equal(together[::9], alone)

    def test_the_inputs_are_left_alone(self, made: tuple[Policy, EnvironmentSpec]):
        policy, spec = made
        observation = self.observe(policy, spec, list(range(3)), 3)
        before = copy.deepcopy(observation)
        policy.propose(observation, np.arange(3), self.nothing_committed(spec, 3), self.generators(range(3)))
        np.testing.assert_array_equal(observation.state, before.state)
        for name, pictures in before.images.items():
            np.testing.assert_array_equal(observation.images[name], pictures)

    def propose(
        self, policy: Policy, spec: EnvironmentSpec, worlds: int, pick: Sequence[int] | None = None
    ) -> tuple[ActionChunk, Observation]:
        chosen = list(range(worlds)) if pick is None else list(pick)
        observation = self.observe(policy, spec, chosen, worlds)
        n = len(chosen)
        chunk = policy.propose(observation, 10 + np.arange(n), self.nothing_committed(spec, n), self.generators(chosen))
        return chunk, observation

    def observe(self, policy: Policy, spec: EnvironmentSpec, pick: Sequence[int], worlds: int) -> Observation:
        state = np.repeat(self.make_states(spec, worlds)[list(pick), None], policy.history, axis=1)
        tick = np.array(pick, np.int64)
        rng = np.random.default_rng(1)
        shapes = {camera.name: (worlds, camera.height, camera.width, 3) for camera in policy.cameras}
        images = {name: rng.integers(0, 256, shape, np.uint8)[list(pick)] for name, shape in shapes.items()}
        return Observation(state, None, images, tuple(spec.instructions[0] for _ in pick), tick, tick * 50_000_000)

    @staticmethod
    def generators(worlds: Sequence[int]) -> list[np.random.Generator]:
        return [seeds.generator(world, "chunk", 0) for world in worlds]

    @staticmethod
    def nothing_committed(spec: EnvironmentSpec, worlds: int) -> Committed:
        return Committed(np.zeros((worlds, 0, spec.action.size), np.float32), np.zeros(worlds, np.int64))
