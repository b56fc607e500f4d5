"""Pushes on the robot while demonstrations are recorded, so that they show the way back.

A demonstrator who never errs visits a thin tube of states; a policy that strays from it has no data to return by. So
now and then something else than the requested action is executed, and what is imitated is the request (DART: Laskey
et al. 2017, "Noise Injection for Robust Imitation Learning"; here short pushes instead of noise at every tick, which
leave the precise phases between them undisturbed).
"""

from dataclasses import dataclass

import numpy as np

from robotrl import seeds
from robotrl.errors import ConfigurationError
from robotrl.specs import EnvironmentSpec
from robotrl.types import Float32


@dataclass(frozen=True)
class Pushes:
    """One push in every period, at a random moment of it and in a random direction.

    Attributes:
        size_rad: standard deviation of what a push adds to each joint target; 0 for none.
        period_s: one push in each.
        length_s: how long a push lasts.
    """

    size_rad: float = 0.03
    period_s: float = 2.0
    length_s: float = 0.3

    def __post_init__(self) -> None:
        if self.size_rad < 0 or not 0 < self.length_s < self.period_s:
            raise ConfigurationError(f"pushes: expected size >= 0 and 0 < length < period, got {self}")

    def path(self, spec: EnvironmentSpec, seed: int) -> Float32:
        """What is added to the requested actions of the episode `seed`, (horizon, A)."""
        period, length = round(self.period_s * spec.control_hz), round(self.length_s * spec.control_hz)
        joints = np.array([unit == "rad" for unit in spec.action.units])
        rng = seeds.generator(seed, "pushes")
        path = np.zeros((spec.horizon + period, spec.action.size), np.float32)
        for start in range(0, spec.horizon, period):
            at = start + int(rng.integers(0, period - length + 1))
            path[at : at + length] = self.size_rad * rng.standard_normal(spec.action.size) * joints
        return path[: spec.horizon]
