"""Demos of an HDF5 file that robotrl did not write: observations, actions, rewards, and simulator states as physics.

The state are all observations of numbers, by name. Rewards of 0 and 1 with a 1 among them mark success, which is
robomimic's convention.
"""

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.exchange.foreign import ForeignEpisode, complete, foreign_spec, measured_spec
from robotrl.data.exchange.hdf5 import Demo, DemoFile, json_attribute
from robotrl.data.exchange.imports import Pending
from robotrl.errors import DataError
from robotrl.specs import CameraSpec, EnvironmentSpec
from robotrl.types import CameraFrames, Episode, Float32, Outcome

_CONTROL_HZ = 20.0
"""robosuite's default, for files that do not say it."""
_KNOWN = {"actions", "rewards", "dones", "states", "obs", "next_obs"}


class ForeignDemos:
    """A file of others, seen as one environment; `DataError` when there is nothing to learn from or it is not finite.

    What the first demo has, all must have.
    """

    def __init__(self, file: DemoFile, task: str, outcome: Outcome | None) -> None:
        self._file = file
        self._outcome: Outcome | None = outcome
        first = file.demos[0]
        shapes = {key: first.shape(f"obs/{key}") for key in first.keys("obs")}
        self._images = {key: shape for key, shape in shapes.items() if len(shape) == 4 and shape[3] == 3}
        self._vectors = {key: shape for key, shape in shapes.items() if len(shape) <= 2}
        if not self._vectors:
            raise DataError(
                f"{file.path}: {first.name} has no observations of numbers under 'obs'. Raw simulator states are not "
                "enough: extract observations with robomimic's dataset_states_to_obs.py first."
            )
        sizes = {demo.shape("states")[1:] for demo in file.demos if "states" in demo.group}
        everywhere = all("states" in demo.group for demo in file.demos)
        self._physics = sizes.pop()[0] if everywhere and len(sizes) == 1 and len(first.shape("states")) == 2 else 0
        self.spec = self._environment(task)

    @property
    def ignored(self) -> tuple[str, ...]:
        """What the first demo has and nothing is made of."""
        first = self._file.demos[0]
        used = {*self._images, *self._vectors}
        observations = [f"obs/{key}" for key in first.keys("obs") if key not in used]
        return (*observations, *(key for key in first.group if key not in _KNOWN))

    def episodes(self) -> Iterator[Pending]:
        """All demos, in order."""
        for demo in self._file.demos:
            content = demo.name.encode() + self._state(demo).tobytes() + self._action(demo).tobytes()
            identity = hashlib.sha256(content).hexdigest()[:16]
            yield Pending(self.spec.fingerprint, identity, partial(self._read, demo, identity))

    def _read(self, demo: Demo, identity: str) -> Episode:
        length = demo.length
        physics = np.zeros((length, 0)) if not self._physics else demo.array("states", length).astype(np.float64)
        period_ns = 1e9 / self.spec.control_hz
        found = ForeignEpisode(
            episode_id=identity,
            instruction=_instruction(demo),
            state=self._state(demo),
            action=self._action(demo),
            time_ns=np.round(np.arange(length + 1) * period_ns).astype(np.int64),
            physics=np.concatenate([physics, physics[-1:]]),
            known=_rewards(demo, length),
            cameras={_camera_name(key): self._camera(demo, key) for key in self._images},
        )
        return complete(found, self.spec, self._outcome)

    def _state(self, demo: Demo) -> Float32:
        """(T + 1, S): all observations, and the next one after the last action, or the last again without one."""
        length = demo.length
        parts: list[Float32] = []
        for key in self._vectors:
            before = demo.matrix(f"obs/{key}", length)
            has_next = key in demo.keys("next_obs")
            after = demo.matrix(f"next_obs/{key}", length) if has_next else before
            parts.append(np.concatenate([before, after[-1:]]))
        return np.concatenate(parts, axis=1)

    def _action(self, demo: Demo) -> Float32:
        return demo.matrix("actions", demo.length)

    def _camera(self, demo: Demo, key: str) -> CameraFrames:
        frames = demo.array(f"obs/{key}", demo.length).astype(np.uint8)
        return CameraFrames(np.arange(len(frames), dtype=np.int32), frames)

    def _environment(self, task: str) -> EnvironmentSpec:
        demos = self._file.demos
        settings = self._file.arguments.get("env_kwargs")
        settings = settings if isinstance(settings, Mapping) else {}
        states = [_range(self._state(demo)) for demo in demos]
        actions = [_range(self._action(demo)) for demo in demos]
        widths = {key: shape[1] if len(shape) == 2 else 1 for key, shape in self._vectors.items()}
        elements = [f"{key}.{i}" for key, width in widths.items() for i in range(width)]
        robots = settings.get("robots") or "unknown"
        return foreign_spec(
            task=task,
            robot=robots if isinstance(robots, str) else "+".join(map(str, robots)),
            state=measured_spec("state", elements, *_union(self._file, states)),
            action=measured_spec(
                "action", [f"action.{i}" for i in range(len(actions[0][0]))], *_union(self._file, actions)
            ),
            physics_size=self._physics,
            control_hz=float(settings.get("control_freq") or _CONTROL_HZ),
            horizon=max(demo.length for demo in demos),
            instructions=filter(None, map(_instruction, demos)),
            cameras=[CameraSpec(_camera_name(key), *shape[1:3]) for key, shape in self._images.items()],
        )


def _camera_name(key: str) -> str:
    return key.removesuffix("_image")


def _instruction(demo: Demo) -> str:
    """What RoboCasa and its kin keep in `ep_meta`; most files have none."""
    return str(json_attribute(demo.group, "ep_meta").get("lang") or "")


def _rewards(demo: Demo, length: int) -> dict[str, NDArray[Any]]:
    if "rewards" not in demo.group:
        return {}
    reward = demo.array("rewards", length).reshape(length).astype(np.float32)
    sparse = bool(np.isin(reward, (0, 1)).all() and reward.any())
    return {"reward": reward, "success": reward > 0} if sparse else {"reward": reward}


def _range(values: Float32) -> tuple[Float32, Float32]:
    return values.min(0), values.max(0)


def _union(file: DemoFile, ranges: list[tuple[Float32, Float32]]) -> tuple[Float32, Float32]:
    if len({len(low) for low, _ in ranges}) > 1:
        raise DataError(f"{file.path}: the demos differ in the width of their observations or actions")
    return np.min([low for low, _ in ranges], axis=0), np.max([high for _, high in ranges], axis=0)
