from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.store import EpisodeStore
from robotrl.errors import ConfigurationError, DataError
from robotrl.rollout.branching import joined
from robotrl.rollout.loop import Execution, Origin, Rollout, hold_action
from robotrl.seeds import seed_range
from robotrl.specs import CameraSpec
from robotrl.types import ActionChunk, Branch
from sim.environment import MujocoEnvironment
from sim.experts import Expert, ExpertPolicy
from sim.perception import PoseNoise
from sim.tasks.insert import Insert
from sim.tasks.pick_place import PickPlace
from sim.tasks.sort import Sort
from tests.contracts.store import assert_same
from tests.sim.test_randomisation import WIDE

LATE = replace(WIDE, action_delay_ticks=3)
NOISY = PoseNoise(0.002, 0.01, delay_ticks=2)
CAMERA = CameraSpec("front", 24, 32)


class Straying:
    """Chunks of 8 actions that stray from the last of two states, by noise and by how the robot moved."""

    history, chunk_length, cameras, version = 2, 8, (), 3

    def __init__(self, spec):
        self._spec = spec

    def propose(self, observation, rows, committed, rng):
        before, now = (hold_action(self._spec, observation.state[:, i]) for i in range(2))
        noise = np.stack([r.standard_normal((8, self._spec.action.size)) for r in rng]).astype(np.float32)
        step = (now - before)[:, None] + 0.02 * noise
        return ActionChunk(rows, now[:, None] + np.cumsum(step, axis=1), observation.tick, self.version, noise)


def environment(worlds: int = 2, task=None, **options) -> MujocoEnvironment:
    return MujocoEnvironment(task or Insert(time_limit_s=2.0), worlds, cameras=[CAMERA], **options)


def rollout(world, stage="rollouts", policy=None, **options) -> Rollout:
    return Rollout(world, policy or Straying(world.spec), Execution(execute=5), Origin("run", stage), **options)


def roll(world, count: int = 2):
    return list(rollout(world).run(seed_range("train").block(count)))


WORLDS = {
    "exact": environment(),
    "noisy and late": environment(task=PickPlace(time_limit_s=2.0), noise=NOISY, randomisation=LATE),
    "an instruction": environment(task=Sort(time_limit_s=2.0)),
}
PARENTS = {name: roll(world) for name, world in WORLDS.items()}


@pytest.mark.parametrize("name", WORLDS)
@settings(max_examples=12, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True), which=st.integers(0, 1))
def test_the_same_actions_from_any_stored_state_give_the_same_bits(name, share, which):
    world, parent = WORLDS[name], PARENTS[name][which]
    tick = int(share * parent.length)
    second = np.array([False, True])
    observation = world.restore(world.snapshot_of(Branch(parent, tick)), second)
    np.testing.assert_array_equal(observation.state[1], parent.state[tick])
    np.testing.assert_array_equal(observation.privileged[1], parent.privileged[tick])
    assert observation.instruction[1] == parent.meta.instruction
    assert (observation.tick[1], observation.time_ns[1]) == (tick, parent.time_ns[tick])
    transition = world.step(np.stack([parent.action_requested[tick:]] * 2), second)
    for field in ("state", "privileged", "physics"):
        np.testing.assert_array_equal(getattr(transition, field)[1], getattr(parent, field)[tick + 1 :], err_msg=field)
    for field in ("reward", "success", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(transition, field)[1], getattr(parent, field)[tick:], err_msg=field)
    np.testing.assert_array_equal(transition.actions[1], parent.action[tick:])


def test_a_success_that_was_being_held_is_held_on():
    world = MujocoEnvironment(PickPlace(), 1)
    origin = Origin("run", "demonstrations", solo=True)
    policy = ExpertPolicy(Expert(world.spec, 1))
    [parent] = Rollout(world, policy, Execution(execute=1), origin).run(seed_range("train").block(1))
    assert parent.succeeded
    held = world.spec.settle_ticks - 3  # so many successful ticks are over
    tick = parent.length - 3
    assert parent.success[tick - held : tick].all()
    world.restore(world.snapshot_of(Branch(parent, tick)), np.ones(1, bool))
    transition = world.step(parent.action_requested[None, tick:], np.ones(1, bool))
    assert transition.terminated[0].tolist() == [False, False, True]


def test_children_say_where_they_branched_off_and_each_has_noise_of_its_own():
    world, [parent, _] = WORLDS["exact"], PARENTS["exact"]
    children = list(rollout(world, "branches").run([Branch(parent, 17, copy) for copy in range(3)]))
    assert len({child.meta.episode_id for child in children}) == 3
    assert len({child.action.tobytes() for child in children}) == 3
    for child in children:
        assert (child.meta.parent, child.meta.parent_tick) == (parent.meta.episode_id, 17)
        assert child.meta.seed == parent.meta.seed
        np.testing.assert_array_equal(child.state[0], parent.state[17])
        assert child.time_ns[0] == parent.time_ns[17]
        np.testing.assert_array_equal(np.diff(child.time_ns), np.diff(parent.time_ns)[:1].repeat(child.length))
        # The chunks' ticks count from the first row, as the rows do.
        assert child.chunks.observed_tick.tolist() == list(range(0, child.length, 5))


def test_a_child_sees_the_history_of_its_parent():
    world, [parent, _] = WORLDS["exact"], PARENTS["exact"]

    class Watching(Straying):
        def __init__(self, spec):
            super().__init__(spec)
            self.seen = []

        def propose(self, observation, *rest):
            self.seen.append(observation.state)
            return super().propose(observation, *rest)

    policy = Watching(world.spec)
    list(rollout(world, policy=policy).run([Branch(parent, 17)]))
    np.testing.assert_array_equal(policy.seen[0][0], parent.state[16:18])


def test_branches_do_not_depend_on_the_number_of_worlds_or_their_companions():
    parents = PARENTS["noisy and late"]
    branches = [Branch(parent, tick) for parent in parents for tick in (0, 3, 20)]
    starts = [*branches, *map(int, seed_range("train").block(2, 50))]
    options = {"task": PickPlace(time_limit_s=2.0), "noise": NOISY, "randomisation": LATE}
    found = []
    for worlds, order in ((1, starts), (3, starts[::-1])):
        world = environment(worlds, **options)
        found.append({e.meta.episode_id: e for e in rollout(world, camera_every=4).run(order)})
        world.close()
    assert found[0].keys() == found[1].keys()
    for name, episode in found[0].items():
        assert_same(episode, found[1][name])
        np.testing.assert_array_equal(episode.cameras["front"].tick, np.arange(0, episode.length + 1, 4))


def test_a_demonstrator_wanders_by_the_branch_alone():
    """Whatever the world did before, and whoever else is running."""
    parents = PARENTS["exact"]
    starts = [Branch(parent, tick, copy) for parent in parents for tick in (12, 30) for copy in range(2)]
    found = []
    for worlds in (1, 3):
        world = environment(worlds)
        policy = ExpertPolicy(Expert(world.spec, worlds))
        run = Rollout(world, policy, Execution(execute=1), Origin("run", "corrections", solo=True))
        found.append({e.meta.episode_id: e for e in run.run(starts)})
        world.close()
    for name, episode in found[0].items():
        assert_same(episode, found[1][name])
    assert len({e.action.tobytes() for e in found[0].values()}) == len(starts)


def test_a_child_joined_with_its_parent_goes_on_as_one_episode(tmp_path):
    world, [parent, _] = WORLDS["exact"], PARENTS["exact"]
    [child] = rollout(world, "branches").run([Branch(parent, 17)])
    with pytest.raises(DataError, match="join the two first"):
        Branch(child, 3)
    whole = joined(parent, child)
    assert whole.length == 17 + child.length
    np.testing.assert_array_equal(whole.state, np.concatenate([parent.state[:17], child.state]))
    acting = whole.chunk_id >= 0
    chunks, rows = whole.chunks.actions, whole.chunk_row
    np.testing.assert_array_equal(chunks[whole.chunk_id[acting], rows[acting]], whole.action_policy[acting])
    started = whole.chunks.start_tick >= 0
    np.testing.assert_array_equal(whole.chunk_id[whole.chunks.start_tick[started]], np.flatnonzero(started))
    [grandchild] = rollout(world, "further").run([Branch(whole, 25)])
    np.testing.assert_array_equal(grandchild.state[0], child.state[8])
    assert grandchild.meta.parent == child.meta.episode_id
    # It is an episode like any other, and can be stored.
    with EpisodeStore.create(tmp_path / "store", world.spec).writer() as writer:
        writer.on_episode(whole)


def test_an_episode_is_joined_with_its_own_parent_only():
    world, [parent, other] = WORLDS["exact"], PARENTS["exact"]
    [child] = rollout(world, "branches").run([Branch(parent, 17)])
    with pytest.raises(DataError, match="join each with its own parent"):
        joined(other, child)


@pytest.mark.parametrize("tick", [-1, 40, 1000])
def test_a_tick_outside_of_the_parent_is_refused(tick):
    parent = PARENTS["exact"][0]
    assert parent.length == 40
    with pytest.raises(DataError, match=f"has 40 ticks: expected a tick from 0 to 39, got {tick}"):
        Branch(parent, tick)


def test_an_episode_that_was_cut_goes_on_after_its_last_tick():
    world, parent = WORLDS["exact"], PARENTS["exact"][0]
    cut = replace(parent, truncated=np.zeros_like(parent.truncated))
    assert world.snapshot_of(Branch(cut, 40)).counters[0, 0] == 40


def test_an_environment_that_cannot_go_on_says_so():
    world, parent = environment(), PARENTS["exact"][0]

    class Forgetful:
        """Like hardware: no way back."""

        spec, worlds = world.spec, world.worlds
        reset, step, close = world.reset, world.step, world.close

    with pytest.raises(ConfigurationError, match="Forgetful cannot go on from stored states"):
        list(rollout(Forgetful()).run([Branch(parent, 3)]))
    world.close()
