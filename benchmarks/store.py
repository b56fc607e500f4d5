"""How near memory speed are training reads, and what does an episode cost? Beside HDF5, zarr-python and LeRobot.

Windows of 64 with history 2 and chunk 16 are read by everybody in turn, round after round in one process with a warm
page cache, so that other work on the machine hits all alike; medians of the rounds are compared. What was read is
checked against the arrays that were written. *bare* is a NumPy gather of the same windows from one memory-mapped file
of all episodes: the bound. zarr-python reads the store's own episode files. LeRobot has fewer, shorter episodes,
which favours it, and video instead of JPEG.

    uv run python benchmarks/store.py          # a table
    uv run python benchmarks/store.py --json   # and one line of JSON at the end
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from robotrl.data.cache import TrainingCache
from robotrl.data.images import CachedImages, StoredImages
from robotrl.data.pack import pack_store
from robotrl.data.store import EpisodeStore
from robotrl.data.windows import WindowSampler
from robotrl.specs import ArraySpec, Capabilities, EnvironmentSpec, SceneSpec
from robotrl.types import CameraFrames, ChunkTable, Episode, EpisodeMeta

STATE, ACTION, SIZE = 32, 14, 96
CAMERAS = ("front", "wrist")
BATCH, HISTORY, CHUNK = 64, 2, 16
Read = Callable[[np.ndarray], Mapping[str, np.ndarray]]
"""Windows at ticks (B,) of the concatenated episodes → arrays called as in `truth`."""


def spec() -> EnvironmentSpec:
    def array(name: str, size: int) -> ArraySpec:
        return ArraySpec(name, tuple(f"{name}.{i}" for i in range(size)), ("1",) * size, (-9.0,) * size, (9.0,) * size)

    return EnvironmentSpec(
        task="benchmark",
        robot="none",
        state=array("state", STATE),
        privileged=array("privileged", 2),
        action=array("action", ACTION),
        physics_size=40,
        control_hz=20.0,
        horizon=400,
        settle_ticks=10,
        instructions=("benchmark",),
        tool_frame="",
        scene=SceneSpec((), ()),
        capabilities=Capabilities(snapshot=False, batched=False, faster_than_real_time=True),
    )


def pictures(count: int, seed: int) -> np.ndarray:
    """(count, 96, 96, 3) uint8: shapes that move over a gradient with a little texture, as a renderer would draw."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE]
    texture = 6 * np.sin(x / 3.0) * np.cos(y / 4.0)
    background = np.stack([60 + 120 * y / SIZE + texture, 90 + 80 * x / SIZE, 140 + texture], -1)
    frames = np.repeat(background[None], count, 0)
    for radius in (8, 14, 20):
        phase = np.arange(count)[:, None, None] / rng.uniform(10, 30) + rng.uniform(0, 6)
        u, v = x - SIZE * (0.5 + 0.4 * np.sin(phase)), y - SIZE * (0.5 + 0.4 * np.cos(1.3 * phase))
        shape = (abs(u) < radius) & (abs(v) < radius / 2) if radius == 14 else u**2 + v**2 < radius**2
        frames[shape] = rng.integers(20, 235, 3) + 0.4 * np.broadcast_to(v, shape.shape)[shape][:, None]
    return np.clip(frames, 0, 255).astype(np.uint8)


def episode(ticks: int, number: int, filmed: bool) -> Episode:
    rng = np.random.default_rng(number)
    f4 = {n: rng.normal(size=(ticks, ACTION)).astype(np.float32) for n in ("action", "action_policy")}
    zeros = {n: np.zeros(ticks, np.uint8) for n in ("control_mode", "trigger", "clamped")}
    flags = {n: np.zeros(ticks, bool) for n in ("intervention", "terminated", "truncated", "success", "starved")}
    ints = {n: np.zeros(ticks, np.int32) for n in ("policy_version", "chunk_id", "chunk_row", "delay_ticks")}
    tick = np.arange(ticks + 1, dtype=np.int32)
    none = np.zeros(0, np.int32)
    return Episode(
        meta=EpisodeMeta(f"{number:08x}", "benchmark", "benchmark", number, "s", "autonomous", "success", "success"),
        state=rng.normal(size=(ticks + 1, STATE)).astype(np.float32),
        privileged=np.zeros((ticks + 1, 2), np.float32),
        physics=np.zeros((ticks + 1, 40)),
        action_requested=f4["action"],
        action_human=np.full((ticks, ACTION), np.nan, np.float32),
        reward=np.zeros(ticks, np.float32),
        probability=np.zeros(ticks, np.float32),
        time_ns=tick.astype(np.int64) * 50_000_000,
        chunks=ChunkTable(np.zeros((0, 0, ACTION), np.float32), none, none, none, np.zeros((0, 0, 0), np.float32)),
        cameras={name: CameraFrames(tick, pictures(ticks + 1, 2 * number + i)) for i, name in enumerate(CAMERAS)}
        if filmed
        else {},
        **f4,
        **zeros,
        **flags,
        **ints,
    )


@dataclass(frozen=True)
class Data:
    """E filmed episodes of T ticks each, in memory and in a store."""

    episodes: list[Episode]
    store: EpisodeStore

    @property
    def ticks(self) -> int:
        return self.episodes[0].length

    @property
    def sampler(self) -> WindowSampler:
        return self._sampler({})

    def filmed_sampler(self, raw: bool) -> WindowSampler:
        snapshot = self.store.snapshot()
        if raw:
            return self._sampler({name: CachedImages.build(self.store, snapshot, name) for name in CAMERAS})
        return self._sampler({name: StoredImages(snapshot, name) for name in CAMERAS})

    def _sampler(self, images: Mapping[str, Any]) -> WindowSampler:
        cache = TrainingCache.build(self.store, self.store.snapshot())
        ones = {n: np.ones(self.ticks, np.float32) for n in ("weight", "target")}
        labels = dict.fromkeys(cache.ids, ones)
        return WindowSampler(cache, labels, history=HISTORY, horizon=CHUNK, batch=BATCH, seed=0, images=images)

    def rows(self, ticks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Episode (B,), state rows (B, L) and actions (B, H) of the windows at `ticks`, within each episode."""
        place, tick = np.divmod(ticks, self.ticks)
        past = np.maximum(tick[:, None] - np.arange(HISTORY - 1, -1, -1), 0)
        return place, past, np.minimum(tick[:, None] + np.arange(CHUNK), self.ticks - 1)


def make_data(root: Path, episodes: int, ticks: int) -> Data:
    made = [episode(ticks, i, filmed=True) for i in range(episodes)]
    store = EpisodeStore.create(root / "store", spec())
    with store.writer() as writer:
        for one in made:
            writer.on_episode(one)
    return Data(made, store)


def bare(data: Data, root: Path) -> tuple[Read, Read]:
    """Gathers from one memory-mapped file a field."""
    flat: dict[str, np.ndarray] = {}
    for name, arrays in _concatenated(data).items():
        path = root / f"{name}.npy"
        np.save(path, arrays)
        flat[name] = np.load(path, mmap_mode="r").view(np.ndarray)

    def state(ticks: np.ndarray) -> dict[str, np.ndarray]:
        place, past, ahead = data.rows(ticks)
        rows, actions = place[:, None] * (data.ticks + 1) + past, place[:, None] * data.ticks + ahead
        return {"state": flat["state"].take(rows, axis=0), "action": flat["action"].take(actions, axis=0)}

    def images(ticks: np.ndarray) -> dict[str, np.ndarray]:
        place, past, _ = data.rows(ticks)
        return {name: flat[name].take(place[:, None] * (data.ticks + 1) + past, axis=0) for name in CAMERAS}

    return state, images


def _concatenated(data: Data) -> dict[str, np.ndarray]:
    return {
        "state": np.concatenate([e.state for e in data.episodes]),
        "action": np.concatenate([e.action for e in data.episodes]),
        **{name: np.concatenate([e.cameras[name].frames[:] for e in data.episodes]) for name in CAMERAS},
    }


def ours(sampler: WindowSampler) -> Read:
    """All of `Windows`, of which more than states and actions is made."""

    def read(ticks: np.ndarray) -> dict[str, np.ndarray]:
        windows = sampler.gather(ticks)
        return {"state": windows.states, "action": windows.actions, **windows.images}

    return read


def per_window(data: Data, open_episode: Callable[[int], Mapping[str, Any]], names: tuple[str, ...]) -> Read:
    """A slice a window, as one reads HDF5 and Zarr; arrays of every episode are open beforehand."""
    groups = [open_episode(i) for i in range(len(data.episodes))]

    def read(ticks: np.ndarray) -> dict[str, np.ndarray]:
        place, past, ahead = data.rows(ticks)
        out: dict[str, np.ndarray] = {}
        for name in names:
            rows = ahead if name == "action" else past
            slices = [groups[p][name][r[0] : r[-1] + 1] for p, r in zip(place, rows, strict=True)]
            out[name] = np.stack([s[r - r[0]] for s, r in zip(slices, rows, strict=True)])
        return out

    return read


def hdf5_episode(data: Data, root: Path) -> Callable[[int], Mapping[str, Any]]:
    import h5py

    path = root / "data.hdf5"
    with h5py.File(path, "w") as file:
        for i, one in enumerate(data.episodes):
            arrays = {"state": one.state, "action": one.action, **{n: c.frames[:] for n, c in one.cameras.items()}}
            for name, array in arrays.items():
                file[f"{i}/{name}"] = array
    opened = h5py.File(path, "r")
    return lambda i: {name: opened[f"{i}/{name}"] for name in ("state", "action", *CAMERAS)}


def zarr_episode(data: Data) -> Callable[[int], Mapping[str, Any]]:
    import zarr

    from robotrl.data.jpeg_codec import JpegCodec

    zarr.registry.register_codec("robotrl.jpeg", JpegCodec)
    entries = data.store.snapshot().entries

    def opened(i: int) -> dict[str, Any]:
        group = zarr.open_group(zarr.storage.ZipStore(entries[i].path), mode="r")
        return {
            "state": group["state"],
            "action": group["action"],
            **{name: group[f"cameras/{name}/frames"] for name in CAMERAS},
        }

    return opened


def lerobot_batch(root: Path, video: bool) -> Callable[[], object]:
    """Reads 64 random windows of a small `LeRobotDataset` one by one, as its loader does."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    one = episode(60, 0, filmed=True)
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": (STATE,), "names": None},
        "action": {"dtype": "float32", "shape": (ACTION,), "names": None},
    }
    for name in CAMERAS if video else ():
        names = ["height", "width", "channels"]
        features[f"observation.images.{name}"] = {"dtype": "video", "shape": (SIZE, SIZE, 3), "names": names}
    place = root / f"lerobot-{video}"
    written = LeRobotDataset.create("benchmark/store", 20, features, root=place, use_videos=video)
    for _ in range(4):
        for t in range(one.length):
            frame: dict[str, Any] = {"observation.state": one.state[t], "action": one.action[t], "task": "benchmark"}
            for name in CAMERAS if video else ():
                frame[f"observation.images.{name}"] = one.cameras[name].frames[t]
            written.add_frame(frame)
        written.save_episode()
    written.finalize()
    past = [-0.05 * k for k in range(HISTORY - 1, -1, -1)]
    wanted = {n: past for n in features} | {"action": [0.05 * k for k in range(CHUNK)]}
    read = LeRobotDataset("benchmark/store", root=place, delta_timestamps=wanted, video_backend="pyav")
    rng = np.random.default_rng(0)
    return lambda: [read[int(i)] for i in rng.integers(0, len(read), BATCH)]


def compare(data: Data, readers: Mapping[str, Read], rounds: int) -> dict[str, float]:
    """Median milliseconds a batch of each reader, all of them in every round, checked against what was written."""
    rng, taken = np.random.default_rng(1), {name: list[float]() for name in readers}
    truth = _concatenated(data)
    for number in range(rounds + 3):
        ticks = rng.integers(0, data.ticks * len(data.episodes), BATCH)
        for name, read in list(readers.items())[:: 1 if number % 2 else -1]:
            began = time.perf_counter()
            found = read(ticks)
            if number >= 3:  # the first rounds open files and fill caches
                taken[name].append(1e3 * (time.perf_counter() - began))
            else:
                _check(data, truth, ticks, found)
            del found  # else the next reader cannot have this memory again, and pays for fresh pages
    return {name: statistics.median(times) for name, times in taken.items()}


def _check(data: Data, truth: Mapping[str, np.ndarray], ticks: np.ndarray, found: Mapping[str, np.ndarray]) -> None:
    place, past, ahead = data.rows(ticks)
    for name, array in found.items():
        rows = place[:, None] * data.ticks + ahead if name == "action" else place[:, None] * (data.ticks + 1) + past
        expected = truth[name][rows]
        if array.dtype == np.uint8:
            error = np.mean((array.astype(np.float32) - expected) ** 2)
            if error > 255**2 / 10**3.4:  # JPEG at quality 95 stays above 34 dB
                raise SystemExit(f"'{name}' was read wrongly: mean squared error {error:.1f}")
        elif not np.array_equal(array, expected):
            raise SystemExit(f"'{name}' was read wrongly")


@contextmanager
def unsynced() -> Generator[None]:
    """Makes filling a store quick; what is measured is synced."""
    fsync = os.fsync
    os.fsync = lambda _: None
    try:
        yield
    finally:
        os.fsync = fsync


def growth(root: Path) -> dict[str, float]:
    """Milliseconds of a durable append at 10 and at 10,000 episodes, and seconds to open, index and pack the latter.

    `pack_vs_copy` is to reading the same files one by one and writing them into a single one, synced once.
    """
    store = EpisodeStore.create(root / "grown", spec())
    model = episode(20, 0, filmed=False)
    found: dict[str, float] = {}
    made = 0

    def append() -> None:
        nonlocal made
        made += 1
        writer.on_episode(replace(model, meta=replace(model.meta, episode_id=f"{made:08x}")))

    with store.writer() as writer:
        for size in (10, 10_000):
            with unsynced():
                while made < size:
                    append()
            found[f"append_ms_at_{size}"] = statistics.median(_timed(append) for _ in range(30))
    opened = [_timed(lambda: len(EpisodeStore.open(store.root).snapshot())) for _ in range(5)]
    copied = _timed(lambda: _copy(store.root, root / "copied"))
    packed = _timed(lambda: pack_store(store))
    return found | {
        "open_10000_s": statistics.median(opened) / 1e3,
        "pack_10000_s": packed / 1e3,
        "pack_vs_copy": packed / copied,
    }


def _copy(store: Path, target: Path) -> None:
    with target.open("wb") as file:
        for path in sorted(store.glob("writers/*/episodes/*")):
            file.write(path.read_bytes())
        file.flush()
        os.fsync(file.fileno())


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - began)


def memory(root: Path) -> dict[str, float]:
    """Megabytes of its own that a process needs at most to read batches with pictures, beyond what imports take."""
    store = EpisodeStore.open(root / "store")
    lengths = [entry.length for entry in store.snapshot().entries]
    data = Data([episode(lengths[0], 0, filmed=False)] * len(lengths), store)
    before = _anonymous_mb()
    sampler, most = data.filmed_sampler(raw=True), 0.0
    for _ in range(100):
        windows = sampler.sample()
        most = max(most, _anonymous_mb() - before)
        del windows
    data_mb = len(lengths) * (lengths[0] + 1) * len(CAMERAS) * SIZE * SIZE * 3 / 1e6
    return {"reader_memory_mb": most, "raw_images_mb": data_mb}


def _anonymous_mb() -> float:
    """Memory of the process that is not a mapped file's."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("RssAnon"))
    return int(line.split()[1]) / 1e3


def measure(root: Path, episodes: int, ticks: int, rounds: int) -> dict[str, float]:
    data = make_data(root, episodes, ticks)
    bare_state, bare_images = bare(data, root)
    sampler, raw, jpeg = data.sampler, data.filmed_sampler(raw=True), data.filmed_sampler(raw=False)
    zarr_open = zarr_episode(data)
    state = {"bare": bare_state, "ours": ours(sampler), "zarr": per_window(data, zarr_open, ("state", "action"))}

    def bare_both(ticks: np.ndarray) -> dict[str, np.ndarray]:
        return {**bare_state(ticks), **bare_images(ticks)}

    images = {"bare": bare_both, "raw": ours(raw)}
    decoded = {"jpeg": ours(jpeg), "zarr": per_window(data, zarr_open, CAMERAS)}
    if find_spec("h5py"):
        opened = hdf5_episode(data, root)
        state["hdf5"] = per_window(data, opened, ("state", "action"))
        images["hdf5"] = per_window(data, opened, CAMERAS)
    found = {f"state_{k}_ms": v for k, v in compare(data, state, rounds).items()}
    found |= {f"images_{k}_ms": v for k, v in compare(data, images, rounds).items()}
    found |= {f"images_{k}_ms": v for k, v in compare(data, decoded, max(5, rounds // 5)).items()}
    found["state_vs_memmap"] = found["state_ours_ms"] / found["state_bare_ms"]
    found["raw_images_vs_memmap"] = found["images_raw_ms"] / found["images_bare_ms"]
    found["jpeg_vs_zarr"] = found["images_zarr_ms"] / found["images_jpeg_ms"]
    if find_spec("lerobot") and find_spec("datasets") and find_spec("av"):
        for video in (False, True):
            batch = lerobot_batch(root, video)
            batch()
            name = "images_lerobot_video_ms" if video else "state_lerobot_ms"
            found[name] = statistics.median(_timed(batch) for _ in range(3))
    found |= growth(root)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found |= pool.apply(memory, (root,))
    found["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--ticks", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), arguments.episodes, arguments.ticks, arguments.rounds)
    for name, value in found.items():
        print(f"{name:28} {value:10.3f}")
    if arguments.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
