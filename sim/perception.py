"""Object poses as a perception system would report them: noisy and late."""

import json
from dataclasses import dataclass

import numpy as np

from robotrl import kinematics
from robotrl import seeds as seed_streams
from robotrl.errors import ConfigurationError
from robotrl.specs import SceneSpec
from robotrl.types import Float64, Int64


@dataclass(frozen=True)
class PoseNoise:
    """How object poses are spoiled before they enter the state; success and reward see the true ones.

    Attributes:
        position_m: standard deviation of each coordinate, drawn anew at every tick.
        yaw_rad: the same of the turn about the vertical.
        delay_ticks: age of the reported pose in control ticks.
    """

    position_m: float = 0.0
    yaw_rad: float = 0.0
    delay_ticks: int = 0

    def __post_init__(self) -> None:
        if min(self.position_m, self.yaw_rad, self.delay_ticks) < 0:
            raise ConfigurationError(f"pose noise: expected values of 0 or more, got {self}")

    @property
    def active(self) -> bool:
        """Whether anything is spoiled at all."""
        return max(self.position_m, self.yaw_rad, self.delay_ticks) > 0


class Perception:
    """Spoils the object poses of N worlds, each from its own generator.

    Attributes:
        past: (N, delay, M, 7) the latest true poses of the M objects, oldest first.
    """

    def __init__(self, scene: SceneSpec, worlds: int, noise: PoseNoise) -> None:
        self.noise = noise
        starts = [f.address for f in scene.frames if f.joint in ("free", "mocap")]
        self._columns = np.array([[start + i for i in range(7)] for start in starts])
        self._generators = [seed_streams.generator(0, "perception") for _ in range(worlds)]
        self.past = np.zeros((worlds, noise.delay_ticks, len(starts), 7))

    def begin(self, rows: Int64, seeds: Int64, physics: Float64) -> Float64:
        """Start the worlds `rows` (n,) in `physics` (n, X) with fresh noise.

        Returns the states as perceived (n, X), `physics` itself where nothing is spoiled.
        """
        if not self.noise.active:
            return physics
        for row, seed in zip(rows, seeds, strict=True):
            self._generators[row] = seed_streams.generator(int(seed), "perception")
        self.past[rows] = physics[:, None, self._columns]
        return self.observe(rows, physics[:, None])[:, 0]

    def observe(self, rows: Int64, physics: Float64) -> Float64:
        """The states (n, K, X) of K further ticks as perceived; `physics` itself where nothing is spoiled."""
        if not self.noise.active or not len(rows):
            return physics
        ticks = physics.shape[1]
        known = np.concatenate([self.past[rows], physics[:, :, self._columns]], axis=1)
        self.past[rows] = known[:, ticks:]
        poses = known[:, :ticks].copy()
        draws = np.stack([self._generators[r].standard_normal((ticks, poses.shape[2], 4)) for r in rows])
        poses[..., :3] += self.noise.position_m * draws[..., :3]
        turn = kinematics.quaternion_from_yaw(self.noise.yaw_rad * draws[..., 3])
        poses[..., 3:] = kinematics.quaternion_multiply(turn, poses[..., 3:])
        perceived = physics.copy()
        perceived[:, :, self._columns] = poses
        return perceived

    def replayed(self, seed: int, physics: Float64) -> tuple[Float64, str]:
        """What a world keeps that began with `seed` and went through the states `physics` (T + 1, X).

        Returns its latest true poses (delay, M, 7), oldest first, and its generator as JSON.
        """
        generator, (states, delay) = seed_streams.generator(seed, "perception"), (len(physics), self.noise.delay_ticks)
        if self.noise.active:
            generator.standard_normal((states, len(self._columns), 4))
        latest = np.maximum(np.arange(states - delay, states), 0)
        return physics[latest[:, None, None], self._columns], _as_json(generator)

    def generator_states(self, rows: Int64) -> tuple[str, ...]:
        """The generators of the worlds `rows`, as JSON."""
        return tuple(_as_json(self._generators[r]) for r in rows)

    def restore_generators(self, rows: Int64, states: tuple[str, ...]) -> None:
        """Put the generators of `rows` into what `generator_states` returned."""
        for row, text in zip(rows, states, strict=True):
            self._generators[row].bit_generator.state = _arrays(json.loads(text))


def _as_json(generator: np.random.Generator) -> str:
    return json.dumps(generator.bit_generator.state, default=np.ndarray.tolist)


def _arrays(value: object) -> object:
    """Lists in decoded JSON as the uint64 arrays that a bit generator expects."""
    if isinstance(value, dict):
        return {key: _arrays(v) for key, v in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value
