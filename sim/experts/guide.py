"""What an expert's phase table says, and the geometry that the tables share."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robotrl.types import Float64, Int64


@dataclass(frozen=True)
class Goal:
    """Where n tools should go from where they are.

    `shift` (n, 3) m in the world; `turn` (n, 3) rad, rotation vector in the world; `opening` (n,) m of the gripper;
    `phase` (n,) index into `Guide.phases`.
    """

    shift: Float64
    turn: Float64
    opening: Float64
    phase: Int64


@dataclass(frozen=True)
class Guide:
    """A task's phases and the law that turns named state elements into a goal.

    `law` gets a function from element prefix to values (n, k).
    """

    phases: tuple[str, ...]
    law: Callable[[Callable[[str], Float64]], Goal]


def funnel(distance: Float64, tolerance: float, slope: float, ceiling: float) -> Float64:
    """Height (n,) m to keep at a horizontal `distance` (n,) m: 0 within the tolerance, then rising to the ceiling."""
    return np.clip(slope * (distance - tolerance), 0.0, ceiling)


def sideways(height: Float64, wanted: Float64) -> Float64:
    """Share (n, 1) of the horizontal way to go now: none for something 3 cm lower than it should be, all at that height."""
    return np.clip(1.0 - (wanted - height) / 0.03, 0.0, 1.0)[:, None]


def upright(axis: Float64, up: float = 1.0) -> Float64:
    """Rotation vector (n, 3) rad, about right for small tilts, that makes `axis` (n, 3) point up (or down, `up` = -1)."""
    return up * np.stack([axis[:, 1], -axis[:, 0], np.zeros(len(axis))], axis=-1)


def norm(vector: Float64) -> Float64:
    """Euclidean length (n,) of `vector` (n, k)."""
    return np.sqrt(np.square(vector).sum(-1))
