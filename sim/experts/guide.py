"""What an expert's phase table says, and the laws that the tables share.

Every law is a continuous function of distances, with no timers: a policy can imitate it from the state alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robotrl import kinematics
from robotrl.types import Bool, Float64, Int64
from sim.robots import Gripper, Robot


@dataclass(frozen=True)
class Elements:
    """What a law sees: called with the prefix of state elements it gives their values (n, k); `robot` does the task."""

    robot: Robot
    values: Callable[[str], Float64]

    def __call__(self, prefix: str) -> Float64:
        """The values (n, k) of the elements that begin with `prefix`."""
        return self.values(prefix)


VERTICAL = np.array([0.0, 0.0, 1.0])
OPEN_M = 0.07
"""Opening with which the gripper approaches and leaves."""
HOVER_M = 0.08
"""Height above the goal at which the tool arrives."""
RETREAT_M = 0.10
"""Height above the object to which the tool withdraws."""


@dataclass(frozen=True)
class Goal:
    """Where n tools should go from where they are.

    `shift` (n, 3) m in the world; `turn` (n, 3) rad, rotation vector in the world; `opening` (n,) m of the gripper;
    `phase` (n,) index into `Guide.phases`; `freedom` (n,) in [0, 1], how much of its noise the hand may keep.
    """

    shift: Float64
    turn: Float64
    opening: Float64
    phase: Int64
    freedom: Float64

    def where(self, condition: Bool, other: "Goal") -> "Goal":
        """`other` in the worlds (n,) where `condition` holds, this goal elsewhere."""
        column = condition[:, None]
        return Goal(
            np.where(column, other.shift, self.shift),
            np.where(column, other.turn, self.turn),
            np.where(condition, other.opening, self.opening),
            np.where(condition, other.phase, self.phase),
            np.where(condition, other.freedom, self.freedom),
        )

    def blend(self, share: Float64, other: "Goal") -> "Goal":
        """Between this goal, at a `share` (n,) of 0, and the `other`, at 1, which alone says when to close."""
        column = share[:, None]
        whole = self.where(share >= 1.0, other)
        return Goal(
            self.shift + column * (other.shift - self.shift),
            self.turn + column * (other.turn - self.turn),
            whole.opening,
            whole.phase,
            whole.freedom,
        )


@dataclass(frozen=True)
class Guide:
    """A task's phases and the law that reads a goal off the state: one, or one for every arm."""

    phases: tuple[str, ...]
    law: Callable[[Elements], Goal | tuple[Goal, ...]]


def norm(vector: Float64) -> Float64:
    """Euclidean length (n,) of `vector` (n, k)."""
    return np.sqrt(np.square(vector).sum(-1))


def tool_to_world(tool: Float64, vector: Float64) -> Float64:
    """World components (n, 3) of `vector` (n, 3) in the tool's frame; `tool` (n, 9) is position, x axis, z axis."""
    x, z = tool[:, 3:6], tool[:, 6:9]
    return vector[:, 0:1] * x + vector[:, 1:2] * kinematics.cross(z, x) + vector[:, 2:3] * z


def turned(vector: Float64, axis: Float64) -> Float64:
    """Horizontal world components (n, 2) of `vector` (n, 2 or 3) in an upright frame whose x axis is `axis` (n, 2)."""
    x, y, along, across = vector[:, 0:1], vector[:, 1:2], axis[:, 0:1], axis[:, 1:2]
    return np.concatenate([x * along - y * across, x * across + y * along], axis=-1)


def funnel(distance: Float64, tolerance: float, slope: float, ceiling: float) -> Float64:
    """Height (n,) m to keep at a horizontal `distance` (n,) m: 0 within the tolerance, then rising to the ceiling."""
    return np.clip(slope * (distance - tolerance), 0.0, ceiling)


def sideways(height: Float64, wanted: Float64) -> Float64:
    """Share (n, 1) of the horizontal way to go now: all at the wanted height, none 3 cm below it."""
    return np.clip(1.0 - (wanted - height) / 0.03, 0.0, 1.0)[:, None]


def freedom_at(height: Float64, steady_m: float) -> Float64:
    """How much the hand may wander at a `height` (n,) m above its goal: not at all below `steady_m`, fully 2 cm higher.

    So it arrives a little off and has to come back, which shows a policy how, and is still where it gets precise.
    """
    return np.clip((height - steady_m) / 0.02, 0.0, 1.0)


def upright(axis: Float64, up: float = 1.0) -> Float64:
    """Rotation vector (n, 3) rad, right for small tilts, that makes `axis` (n, 3) point up (down where `up` is -1)."""
    return up * np.stack([axis[:, 1], -axis[:, 0], np.zeros(len(axis))], axis=-1)


def level(axis: Float64, wanted: Float64, tool: Float64) -> Float64:
    """Rotation vector (n, 3) rad, right for small turns, that takes the `axis` (n, 3) of a thing to the `wanted` one.

    About that axis it makes the `tool` (n, 9), which holds the thing, point down.
    """
    roll = (upright(tool[:, 6:9], -1.0) * wanted).sum(-1, keepdims=True)
    return kinematics.cross(axis, wanted) + roll * wanted


def careful(shift: Float64, distance: Float64, near_m: float, lead_m: float) -> Float64:
    """`shift` (n, 3) m, at most `lead_m` where the goal is nearer than `near_m` by its `distance` (n,) m.

    A person slows down near things, which also leaves a policy that acts in chunks the time to look again.
    """
    longest = np.where(distance < near_m, lead_m, np.inf)[:, None]
    length = np.sqrt(np.square(shift).sum(-1, keepdims=True))
    return shift * np.minimum(1.0, longest / np.maximum(length, 1e-9))


def from_middle(offset: Float64, opening: Float64, gripper: Gripper) -> Float64:
    """From the middle between pads `opening` (n,) m apart to what is at `offset` (n, 3) m in the tool's frame."""
    across = np.zeros_like(offset)
    across[:, 1] = gripper.middle(opening)
    return offset - across


def between_pads(offset: Float64) -> Bool:
    """Whether an object whose grasp point is at `offset` (n, 3) m in the tool's frame is between the pads."""
    distance = np.abs(offset)
    return (distance[:, 0] < 0.02) & (distance[:, 1] < 0.008) & (distance[:, 2] < 0.025)


def fetch(
    tool: Float64,
    offset: Float64,
    yaw: Float64,
    gripper: Float64,
    width_m: float,
    open_m: Float64 | float = OPEN_M,
    hover_m: float = HOVER_M,
) -> Goal:
    """Approach (phase 0) and grasp (phase 1): above the object, down a funnel, close when the pads are around it.

    Args:
        tool: (n, 9) position, x axis and z axis of the tool.
        offset: (n, 3) m from the tool to the grasp point, in the tool's frame.
        yaw: (n,) rad, turn about the tool's z axis that lines up the pads.
        gripper: (n,) m, the present opening.
        width_m: of the object.
        open_m: opening for the approach, one for all or (n,).
        hover_m: height above the grasp point at which the tool arrives.
    """
    reach = tool_to_world(tool, offset)
    apart = norm(reach[:, :2]) + 0.04 * np.abs(yaw)
    clear = funnel(apart, 0.006, 5.0, hover_m)
    shift = np.concatenate([reach[:, :2] * sideways(-reach[:, 2], clear), reach[:, 2:] + clear[:, None]], axis=-1)
    shift = careful(shift, norm(reach), 0.09, 0.012)
    around = (apart < 0.007) & (np.abs(reach[:, 2]) < 0.006)
    # Fingers that are half closed around the object go on closing although it moved a little.
    closing = around | (between_pads(offset) & (gripper < width_m + 0.015))
    turn = upright(tool[:, 6:9], -1.0) - yaw[:, None] * VERTICAL
    freedom = np.where(closing, 0.0, freedom_at(-reach[:, 2], 0.02))
    return Goal(shift, turn, np.where(closing, 0.0, open_m), closing.astype(np.int64), freedom)


def leave(reach_z: Float64, gripper: Float64, width_m: float, phase: int, scale: float = 1.0) -> Goal:
    """Open where the tool is, then rise to `RETREAT_M` above the object, which is `reach_z` (n,) m above the tool.

    `scale` is the robot's, and shrinks height and opening.
    """
    rise = np.where(gripper > width_m + 0.012, np.maximum(RETREAT_M * scale + reach_z, 0.0), 0.0)
    count, still = len(rise), np.zeros((len(rise), 3))
    opening, phases = np.full(count, OPEN_M * scale), np.full(count, phase)
    return Goal(rise[:, None] * VERTICAL, still, opening, phases, np.zeros(count))


def park(tool: Float64, place: Float64, axis: Float64, phase: int) -> Goal:
    """Go to a `place` (3,) m in the world with an open hand that points down, the tool's x axis along `axis` (3,)."""
    count = len(tool)
    ahead = np.concatenate([tool[:, 3:5], np.zeros((count, 1))], axis=-1)
    shift = place - tool[:, :3]
    turn = upright(tool[:, 6:9], -1.0) + kinematics.cross(ahead, np.broadcast_to(axis, (count, 3)))
    opening, phases = np.full(count, OPEN_M), np.full(count, phase)
    return Goal(shift, turn, opening, phases, np.clip(norm(shift) / 0.05 - 0.5, 0.0, 1.0))
