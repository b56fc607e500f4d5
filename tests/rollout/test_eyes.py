from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from robotrl.rollout.execution import NaiveAsync
from robotrl.rollout.latency import UniformLatency
from robotrl.rollout.loop import Execution, Origin, Rollout, hold_action
from robotrl.seeds import seed_range
from robotrl.specs import CameraSpec
from robotrl.types import ActionChunk, Command
from sim.environment import MujocoEnvironment
from sim.render import SceneRenderer
from sim.tasks.reach import Reach
from tests.contracts.store import assert_same

CAMERA = CameraSpec("front", 16, 24, "fast")
ASYNCHRONOUS = Execution(NaiveAsync(), 6, UniformLatency(1, 4))


class Counting(MujocoEnvironment):
    """Counts the pictures that are drawn of it, by world and tick."""

    def __init__(self, cameras=(CAMERA,), worlds=3):
        super().__init__(Reach(time_limit_s=1.3), worlds, cameras=cameras)
        self.drawn = Counter()

    def _images(self, rows):
        self.drawn.update((int(row), int(self._seed[row]), int(self._tick[row])) for row in rows)
        return super()._images(rows)


class Looking:
    """Moves every joint a little, and remembers what it was shown."""

    history, chunk_length, version = 1, 16, 1

    def __init__(self, spec, cameras=(CAMERA,)):
        self.spec, self.cameras = spec, cameras
        self.asked, self.shown = Counter(), []

    def propose(self, observation, rows, committed, rng):
        self.asked.update(zip(rows.tolist(), observation.tick.tolist(), strict=True))
        self.shown.append((observation.physics, observation.images))
        held = hold_action(self.spec, observation.state[:, -1])
        actions = held[:, None] + 0.02 * np.arange(16, dtype=np.float32)[:, None]
        return ActionChunk(rows, actions, observation.tick, self.version)


class Meddling:
    """A person who drives every world from tick 5 to tick 9."""

    exhausted = False

    def attend(self, observation, status):
        n, size = len(observation.tick), 8
        active = (observation.tick >= 5) & (observation.tick < 9)
        nothing = np.zeros(n, np.uint8)
        actions = observation.state[:, :size].copy()
        return Command(nothing, actions, active, nothing, np.zeros(n, bool), np.zeros(n, bool))


def roll(policy, world, execution=None, **options):
    rollout = Rollout(world, policy, execution or Execution(), Origin("run", "seen"), **options)
    episodes = list(rollout.run(seed_range("train").block(5)))
    world.close()
    return episodes


@pytest.mark.parametrize("execution", [Execution(), ASYNCHRONOUS], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("operator", [None, Meddling()], ids=["alone", "with a person"])
def test_a_world_is_drawn_when_its_policy_observes_and_at_no_other_tick(execution, operator):
    world = Counting()
    policy = Looking(world.spec)
    roll(policy, world, execution, operator=operator)
    assert policy.asked and Counter((row, tick) for row, _, tick in world.drawn.elements()) == policy.asked
    assert max(world.drawn.values()) == 1


def test_the_policy_is_shown_the_states_that_it_proposes_from():
    world = Counting()
    policy = Looking(world.spec)
    roll(policy, world, ASYNCHRONOUS)
    with SceneRenderer(world.model, CAMERA) as renderer:
        for physics, images in policy.shown:
            np.testing.assert_array_equal(images["front"], renderer.video(physics))


def test_a_policy_that_goes_by_states_is_shown_nothing_and_nothing_is_drawn():
    world = Counting()
    policy = Looking(world.spec, ())
    roll(policy, world)
    assert not world.drawn
    assert all(images == {} for _, images in policy.shown)


@pytest.mark.parametrize("every", [1, 5])
def test_what_is_filmed_for_the_store_is_not_drawn_again_and_both_get_the_same(every):
    world = Counting()
    policy = Looking(world.spec)
    filmed = roll(policy, world, camera_every=every)
    last = {e.meta.seed: e.length for e in filmed}
    needed = {(e.meta.seed, int(t)) for e in filmed for t in e.cameras["front"].tick}
    needed |= {(seed, tick) for row, seed, tick in world.drawn if (row, tick) in policy.asked}
    drawn = Counter((seed, tick) for _, seed, tick in world.drawn.elements())
    assert set(drawn) - {(s, t) for s, t in drawn if t == last[s]} <= needed
    assert max(drawn[s, t] for s, t in drawn if t < last[s]) == 1
    for plain, episode in zip(roll(Looking(world.spec), Counting()), filmed, strict=True):
        assert_same(plain, replace(episode, cameras={}))


def test_a_policy_in_a_world_without_its_cameras_is_refused_before_anything_moves():
    world = Counting([CameraSpec("front", 32, 32)])
    with pytest.raises(ConfigurationError, match=r"the policy: expected a camera 'front' of 16 x 24 pixels, fast"):
        Rollout(world, Looking(world.spec), Execution(), Origin("run", "seen"))
    world.close()
