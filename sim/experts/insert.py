"""Phase table of `insert`: approach, grasp, carry, insert, release."""

from collections.abc import Callable

import numpy as np

from robotrl.types import Float64
from sim.experts.guide import Goal, Guide, funnel, norm, sideways, upright
from sim.tasks.insert import DEPTH_M, WIDTH_M

PHASES = ("approach", "grasp", "carry", "insert", "release")
_OPEN_M = 0.07
_HOVER_M = 0.05
RIM_M = DEPTH_M + 0.003
_RETREAT_M = 0.10
_VERTICAL = np.array([0.0, 0.0, 1.0])


def _to_world(tool: Float64, vector: Float64) -> Float64:
    """World components (n, 3) of `vector` (n, 3) given in the tool's frame; `tool` (n, 9) is position, x axis, z axis."""
    x, z = tool[:, 3:6], tool[:, 6:9]
    y = np.cross(z, x)
    return vector[:, 0:1] * x + vector[:, 1:2] * y + vector[:, 2:3] * z


def law(element: Callable[[str], Float64]) -> Goal:
    """Goal for every world from its named state elements."""
    tool, gripper = element("tool"), element("gripper")[:, 0]
    to_peg, peg_yaw = element("tool_to_peg")[:, :3], element("tool_to_peg")[:, 3]
    to_hole, hole_yaw = element("peg_to_hole")[:, :3], element("peg_to_hole")[:, 3]
    reach = _to_world(tool, to_peg)
    offset = np.abs(to_peg)
    between = (offset[:, 0] < 0.02) & (offset[:, 1] < 0.008) & (offset[:, 2] < 0.025)
    held = between & (gripper < WIDTH_M + 0.0025)
    across, lift = np.abs(to_hole[:, :2]).max(-1), -to_hole[:, 2]
    inside = (across < 0.004) & (lift < DEPTH_M - 0.0015)
    # A peg gripped so low that the pads stand on the walls is let go once it can only fall into place.
    low_grip = to_peg[:, 2] < -0.006
    seated = inside & (lift < np.where(low_grip, 0.022, 0.004))

    # Approach and grasp: over the peg, down a funnel, close when the pads are around it.
    apart = norm(reach[:, :2]) + 0.04 * np.abs(peg_yaw)
    clear = funnel(apart, 0.006, 2.0, _HOVER_M)
    shift = np.concatenate([reach[:, :2] * sideways(-reach[:, 2], clear), reach[:, 2:] + clear[:, None]], axis=-1)
    ready = (apart < 0.007) & (np.abs(reach[:, 2]) < 0.006)
    closing = ready | (between & (gripper < 0.045))
    turn = upright(tool[:, 6:9], -1.0) - peg_yaw[:, None] * _VERTICAL
    opening = np.where(closing, 0.0, _OPEN_M)

    # Carry and insert: over the hole, down a steeper funnel; inside the hole only down.
    heading = element("hole")[:, 2:4]
    way = np.stack(
        [
            to_hole[:, 0] * heading[:, 0] - to_hole[:, 1] * heading[:, 1],
            to_hole[:, 0] * heading[:, 1] + to_hole[:, 1] * heading[:, 0],
        ],
        axis=-1,
    )
    away = norm(way) + 0.015 * np.abs(hole_yaw)
    above = np.where(inside | (away < 0.001), 0.0, RIM_M + funnel(away, 0.001, 2.0, _HOVER_M - RIM_M))
    carry = np.concatenate([way * sideways(lift, above), np.maximum(above - lift, -0.012)[:, None]], axis=-1)
    peg_up = np.concatenate([element("peg")[:, 3:5], np.ones((len(lift), 1))], axis=-1)
    shift = np.where(held[:, None], carry, shift)
    turn = np.where(held[:, None], upright(peg_up) + hole_yaw[:, None] * _VERTICAL, turn)
    opening = np.where(held, 0.0, opening)

    # Release: open where it is, then rise.
    rise = np.where(gripper > WIDTH_M + 0.012, np.maximum(_RETREAT_M + reach[:, 2], 0.0), 0.0)
    shift = np.where(seated[:, None], rise[:, None] * _VERTICAL, shift)
    turn = np.where(seated[:, None], 0.0, turn)
    opening = np.where(seated, _OPEN_M, opening)

    phase = np.where(seated, 4, np.where(held, np.where(inside, 3, 2), np.where(closing, 1, 0)))
    return Goal(shift, turn, opening, phase)


GUIDE = Guide(PHASES, law)
