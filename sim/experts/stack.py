"""Phase table of `stack`."""

import numpy as np

from sim.experts.guide import (
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
    upright,
)
from sim.tasks.stack import SIDE_M

PHASES = ("approach", "grasp", "carry", "release")
_OVER_M = 0.05
# So near its place the cube is let go.
_WITHIN_M, _GAP_M = 0.006, 0.003


def law(element: Elements) -> Goal:
    """Goal for every world: fetch the cube, carry it over the other one, set it down, let go."""
    tool, gripper = element("tool"), element("gripper")[:, 0]
    offset, cube_yaw = element("tool_to_cube")[:, :3], element("tool_to_cube")[:, 3]
    place, place_yaw = element("cube_to_place")[:, :3], element("cube_to_place")[:, 3]
    away, lift = norm(place[:, :2]), -place[:, 2]
    held = between_pads(offset) & (gripper < SIDE_M + 0.0025)
    there = (np.abs(place[:, :2]).max(-1) < np.where(held, _WITHIN_M, 0.018)) & (np.abs(lift) < _GAP_M)
    height = funnel(away + 0.02 * np.abs(place_yaw), 0.003, 3.0, _OVER_M)
    shift = np.concatenate([place[:, :2] * sideways(lift, height), (height - lift)[:, None]], axis=-1)
    carry = Goal(
        shift=careful(shift, away + np.abs(lift), 0.05, 0.012),
        turn=upright(tool[:, 6:9], -1.0) + place_yaw[:, None] * VERTICAL,
        opening=np.zeros(len(lift)),
        phase=np.full(len(lift), 2),
        freedom=freedom_at(lift, _OVER_M),
    )
    goal = fetch(tool, offset, cube_yaw, gripper, SIDE_M).where(held, carry)
    reach_z = tool_to_world(tool, offset)[:, 2]
    return goal.where(there, leave(reach_z, gripper, SIDE_M, phase=3))


GUIDE = Guide(PHASES, law)
