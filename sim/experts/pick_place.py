"""Phase table of `pick_place`."""

import numpy as np

from sim.experts.guide import (
    VERTICAL,
    Elements,
    Goal,
    Guide,
    between_pads,
    fetch,
    funnel,
    leave,
    norm,
    sideways,
    tool_to_world,
    upright,
)
from sim.tasks.pick_place import SIDE_M, WALL_HEIGHT_M

PHASES = ("approach", "grasp", "carry", "release")
# Heights of the cube's centre above where it lies in the bin: over the walls, and where it is dropped from.
_OVER_M = WALL_HEIGHT_M + 0.03
_DROP_M = WALL_HEIGHT_M + 0.01
_WITHIN_M = 0.028


def law(element: Elements) -> Goal:
    """Goal for every world: fetch the cube, carry it over the bin, lower it a little, let go."""
    tool, gripper = element("tool"), element("gripper")[:, 0]
    offset, cube_yaw = element("tool_to_cube")[:, :3], element("tool_to_cube")[:, 3]
    bin_ = element("cube_to_bin")
    across, lift = np.abs(bin_[:, :2]).max(-1), -bin_[:, 2]
    held = between_pads(offset) & (gripper < SIDE_M + 0.0025)
    inside = (across < _WITHIN_M) & (lift < _DROP_M + 0.004) | (across < 0.036) & (lift < 0.01)

    x, y = element("bin")[:, 2:3], element("bin")[:, 3:4]
    way = np.concatenate([bin_[:, 0:1] * x - bin_[:, 1:2] * y, bin_[:, 0:1] * y + bin_[:, 1:2] * x], axis=-1)
    height = _DROP_M + funnel(norm(way), 0.02, 1.0, _OVER_M - _DROP_M)
    carry = Goal(
        shift=np.concatenate([way * sideways(lift, height), (height - lift)[:, None]], axis=-1),
        turn=upright(tool[:, 6:9], -1.0) + np.zeros_like(VERTICAL),
        opening=np.zeros(len(lift)),
        phase=np.full(len(lift), 2),
    )
    reach_z = tool_to_world(tool, offset)[:, 2]
    goal = fetch(tool, offset, cube_yaw, gripper, SIDE_M).where(held, carry)
    return goal.where(inside, leave(reach_z, gripper, SIDE_M, phase=3))


GUIDE = Guide(PHASES, law)
