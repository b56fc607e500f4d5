"""Data that are larger than the memory there is."""

import multiprocessing
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robotrl.data.cache import TrainingCache
from robotrl.data.frames import encode_frames
from robotrl.data.images import CachedImages
from robotrl.data.store import EpisodeStore
from robotrl.data.windows import WindowSampler
from robotrl.types import CameraFrames
from tests import builders
from tests.data.pictures import pictures

TICKS, SIZE = 60, (128, 128)
ALLOWED_MB = 48


def _train_with_little_memory(root: Path, allowed_mb: int, found: "multiprocessing.Queue[object]") -> None:
    """Build the caches and draw windows; more memory of its own than that is refused by the operating system."""
    status = Path("/proc/self/status").read_text().splitlines()
    used_kb = int(next(line for line in status if line.startswith("VmData")).split()[1])
    resource.setrlimit(resource.RLIMIT_DATA, (used_kb * 1024 + (allowed_mb << 20), resource.RLIM_INFINITY))
    store = EpisodeStore.open(root)
    snapshot = store.snapshot()
    cache = TrainingCache.build(store, snapshot)
    images = {"front": CachedImages.build(store, snapshot, "front")}
    ones = {name: np.ones(TICKS, np.float32) for name in ("weight", "target")}
    labels = dict.fromkeys(cache.ids, ones)
    sampler = WindowSampler(cache, labels, history=2, horizon=16, batch=32, seed=0, images=images)
    seen = {cache.ids[place] for _ in range(60) for place in sampler.sample().episode}
    found.put(len(seen))
    try:
        np.ones(allowed_mb << 20, np.uint8)
    except MemoryError:
        found.put("limited")


@pytest.mark.parametrize("episodes", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_training_reads_data_several_times_larger_than_memory(tmp_path, episodes):
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    tick = np.arange(TICKS + 1, dtype=np.int32)
    cameras = {"front": CameraFrames(tick, encode_frames(pictures(TICKS + 1, *SIZE), "jpeg"))}
    filmed = replace(builders.episode(TICKS, takeover=None), cameras=cameras)
    with store.writer() as writer:
        for seed in range(episodes):
            writer.on_episode(replace(filmed, meta=replace(filmed.meta, episode_id=f"e{seed}", seed=seed)))
    spawn = multiprocessing.get_context("spawn")
    found = spawn.Queue()
    process = spawn.Process(target=_train_with_little_memory, args=(store.root, ALLOWED_MB, found))
    process.start()
    process.join(300)
    assert process.exitcode == 0
    assert found.get() > 50
    assert found.get() == "limited"
    raw = sum(path.stat().st_size for path in store.root.glob("cache/**/*") if path.is_file())
    assert raw > 3 * (ALLOWED_MB << 20)
