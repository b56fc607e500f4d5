from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from robotrl.data.camera_layers import layer_frames, render_layer
from robotrl.data.frames import encode_frames
from robotrl.data.images import CachedImages, StoredImages
from robotrl.data.store import EpisodeStore
from robotrl.errors import ConfigurationError, DataError
from robotrl.rollout.film import Film
from robotrl.rollout.loop import Execution, Origin, Rollout, hold_action
from robotrl.seeds import seed_range
from robotrl.specs import CameraSpec
from robotrl.types import ActionChunk
from sim.environment import MujocoEnvironment
from sim.render import SceneRenderer
from sim.tasks.insert import Insert
from tests.contracts.store import assert_same

SIZE = (24, 32)
CAMERA = CameraSpec("front", *SIZE)


class Reaching:
    """Chunks of 16 actions that move every joint a little, so that the loop advances by many ticks at once."""

    history, chunk_length, cameras, version = 1, 16, (), 1

    def __init__(self, spec):
        self._spec = spec

    def propose(self, observation, rows, committed, rng):
        held = hold_action(self._spec, observation.state[:, -1])
        actions = held[:, None] + 0.02 * np.arange(16, dtype=np.float32)[:, None]
        return ActionChunk(rows, actions, observation.tick, self.version)


def roll(camera_every: int):
    """Three episodes in two worlds, and the spec of these."""
    world = MujocoEnvironment(Insert(time_limit_s=0.65), worlds=2, cameras=[CAMERA])
    origin = Origin("run", "filmed")
    rollout = Rollout(world, Reaching(world.spec), Execution(execute=8), origin, camera_every=camera_every)
    episodes = list(rollout.run(seed_range("train").block(3)))
    world.close()
    return world, episodes


@pytest.mark.parametrize("every", [3, 6])
def test_episodes_keep_what_the_camera_saw_at_every_so_many_states(every):
    world, episodes = roll(every)
    with SceneRenderer(world.model, CAMERA) as renderer:
        for episode in episodes:
            camera = episode.cameras["front"]
            np.testing.assert_array_equal(camera.tick, np.arange(0, episode.length + 1, every))
            expected = encode_frames(renderer.video(episode.physics[camera.tick]))
            np.testing.assert_array_equal(camera.frames[:], expected[:])


def test_cameras_do_not_change_what_happens():
    for plain, filmed in zip(roll(0)[1], roll(5)[1], strict=True):
        assert not plain.cameras
        assert_same(plain, replace(filmed, cameras={}))


def test_frames_less_often_than_never_are_refused():
    with pytest.raises(ConfigurationError, match="every -1 ticks: expected at least 1"):
        Film(2, -1)


@pytest.fixture
def plain(tmp_path):
    world, episodes = roll(0)
    store = EpisodeStore.create(tmp_path / "store", world.spec)
    with store.writer() as writer:
        for episode in episodes:
            writer.on_episode(episode)
    return store, world


def test_a_layer_rendered_later_shows_what_was_recorded_and_goes_on_after_an_interruption(plain):
    store, world = plain
    snapshot = store.snapshot()
    before = [entry.path.read_bytes() for entry in snapshot.entries]
    with SceneRenderer(world.model, CAMERA) as renderer:

        def draw(physics, privileged):
            return {"front": renderer.video(physics)}

        assert render_layer(store, snapshot.select(snapshot.ids[:1]), "v1", [CAMERA], draw, every=6) == 1
        assert render_layer(store, snapshot, "v1", [CAMERA], draw, every=6) == 2
    assert [entry.path.read_bytes() for entry in snapshot.entries] == before
    filmed = {e.meta.episode_id: e.cameras["front"].frames[:] for e in roll(6)[1]}
    source = layer_frames(store, "v1")
    for entry in snapshot.entries:
        np.testing.assert_array_equal(source(entry)["front"].frames[:], filmed[entry.episode_id])
    place, tick = np.array([0, 2]), np.array([[0, 7], [11, 13]])
    stored = StoredImages(snapshot, "front", source).gather(place, tick)
    cached = CachedImages.build(store, snapshot, "front", layer="v1", source=source).gather(place, tick)
    np.testing.assert_array_equal(stored, cached)


def test_a_layer_that_lacks_an_episode_or_belongs_to_another_is_refused(plain):
    store, _ = plain
    snapshot = store.snapshot()

    def draw(physics, privileged):
        return {"front": np.zeros((len(physics), *SIZE, 3), np.uint8)}

    render_layer(store, snapshot.select(snapshot.ids[:1]), "v1", [CAMERA], draw)
    source = layer_frames(store, "v1")
    with pytest.raises(DataError, match=f"lacks episode {snapshot.ids[1]}: render it first"):
        source(snapshot.entries[1])
    path = store.root / "cameras" / "v1"
    (path / f"{snapshot.ids[0]}.zarr.zip").rename(path / f"{snapshot.ids[1]}.zarr.zip")
    with pytest.raises(DataError, match="choose another layer"):
        render_layer(store, snapshot, "v1", [CAMERA], draw)


class Watched(MujocoEnvironment):
    """Notes the ticks of the worlds that it is asked to draw."""

    def step(self, actions, mask, render=None):
        transition = super().step(actions, mask, render)
        if render is not None:
            self.drawn += transition.observation.tick[render].tolist()
        return transition


def test_a_world_is_drawn_only_when_a_frame_of_it_is_kept():
    world = Watched(Insert(time_limit_s=0.65), worlds=2, cameras=[CAMERA])
    world.drawn = []
    rollout = Rollout(world, Reaching(world.spec), Execution(execute=8), Origin("run", "filmed"), camera_every=5)
    episodes = list(rollout.run(seed_range("train").block(3)))
    world.close()
    kept = Counter(int(tick) for episode in episodes for tick in episode.cameras["front"].tick)
    # Beside them at most the last state of an episode that ended before the frame that was asked for.
    assert set(Counter(world.drawn) - kept) <= {world.spec.horizon}
    assert not kept - Counter(world.drawn)
