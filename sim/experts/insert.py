"""Phase table of `insert`."""

import numpy as np

from sim.experts.guide import (
    HOVER_M,
    VERTICAL,
    Elements,
    Goal,
    Guide,
    between_pads,
    careful,
    fetch,
    freedom_at,
    funnel,
    leave,
    norm,
    sideways,
    tool_to_world,
    turned,
    upright,
)
from sim.tasks.insert import DEPTH_M, WIDTH_M

PHASES = ("approach", "grasp", "carry", "insert", "release")
_RIM_M = DEPTH_M + 0.003
# So far off the axis (the larger of x and y) a foot can be that is in the hole and not on its rim.
_WITHIN_M = 0.004
_MAX_PUSH_M = 0.012


def law(element: Elements) -> Goal:
    """Goal for every world: fetch the peg, carry it over the hole, lower it, let go."""
    tool, gripper = element("tool"), element("gripper")[:, 0]
    offset, peg_yaw = element("tool_to_peg")[:, :3], element("tool_to_peg")[:, 3]
    hole, hole_yaw = element("peg_to_hole")[:, :3], element("peg_to_hole")[:, 3]
    across, lift = np.abs(hole[:, :2]).max(-1), -hole[:, 2]
    held = between_pads(offset) & (gripper < WIDTH_M + 0.0025)
    inside = (across < _WITHIN_M) & (lift < DEPTH_M - 0.0015)
    # A peg gripped so low that the pads stand on the walls is let go once it can only fall into place.
    seated = inside & (lift < np.where(offset[:, 2] < -0.006, 0.022, 0.004))

    # Over the hole a little above the rim, down when aligned; inside the hole only down, and not hard.
    way = turned(hole, element("hole")[:, 2:4])
    away = norm(way) + 0.015 * np.abs(hole_yaw)
    height = np.where(inside | (away < 0.001), 0.0, _RIM_M + funnel(away, 0.001, 4.0, HOVER_M - _RIM_M))
    down = np.maximum(height - lift, -_MAX_PUSH_M)
    peg_up = np.concatenate([element("peg")[:, 3:5], np.ones((len(lift), 1))], axis=-1)
    shift = np.concatenate([way * sideways(lift, height), down[:, None]], axis=-1)
    carry = Goal(
        shift=careful(careful(shift, norm(way), 0.045, 0.012), norm(way), 0.012, 0.006),
        turn=upright(peg_up) + hole_yaw[:, None] * VERTICAL,
        opening=np.zeros(len(lift)),
        phase=np.where(inside, 3, 2),
        freedom=freedom_at(lift, _RIM_M + 0.008),
    )
    reach_z = tool_to_world(tool, offset)[:, 2]
    goal = fetch(tool, offset, peg_yaw, gripper, WIDTH_M).where(held, carry)
    return goal.where(seated, leave(reach_z, gripper, WIDTH_M, phase=4))


GUIDE = Guide(PHASES, law)
