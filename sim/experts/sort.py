"""Phase table of `sort`."""

import numpy as np

from sim.experts.guide import (
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
from sim.tasks.sort import SIDE_M, WALL_HEIGHT_M

PHASES = ("approach", "grasp", "carry", "release")
# Heights over the place at which a thing arrives, and from which it is let go: into a bin, beside or on something.
_OVER_M = 0.065
_DROP_M, _GAP_M = WALL_HEIGHT_M + 0.01, 0.0015
_OPEN_M = SIDE_M + 0.025


def law(element: Elements) -> Goal:
    """Goal for every world: fetch the thing, carry it over its place, lower it, let go."""
    tool, gripper = element("tool"), element("gripper")[:, 0]
    offset, yaw = element("tool_to_object")[:, :3], element("tool_to_object")[:, 3]
    place, into_bin = element("object_to_place"), element("goal")[:, 0] > 0.5
    away, lift = norm(place[:, :2]), -place[:, 2]
    held = between_pads(offset) & (gripper < SIDE_M + 0.0025)
    low = np.where(into_bin, _DROP_M, _GAP_M)
    within = np.where(held, np.where(into_bin, 0.01, 0.006), np.where(into_bin, 0.024, 0.018))
    there = (np.abs(place[:, :2]).max(-1) < within) & (lift < low + 0.0025)
    height = low + funnel(away, 0.004, 3.0, 1.0)
    height = np.minimum(height, _OVER_M)
    shift = np.concatenate([place[:, :2] * sideways(lift, height), (height - lift)[:, None]], axis=-1)
    carry = Goal(
        shift=careful(shift, away + np.abs(lift - low), 0.05, 0.012),
        turn=upright(tool[:, 6:9], -1.0),
        opening=np.zeros(len(lift)),
        phase=np.full(len(lift), 2),
        freedom=freedom_at(lift, _OVER_M),
    )
    goal = fetch(tool, offset, yaw, gripper, SIDE_M, _OPEN_M).where(held, carry)
    return goal.where(there, leave(tool_to_world(tool, offset)[:, 2], gripper, SIDE_M, phase=3))


GUIDE = Guide(PHASES, law)
