"""Phase table of `pick_place`."""

import numpy as np

from robotrl import kinematics
from robotrl.types import Float64
from sim.experts.guide import (
    HOVER_M,
    OPEN_M,
    VERTICAL,
    Elements,
    Goal,
    Guide,
    between_pads,
    fetch,
    freedom_at,
    from_middle,
    funnel,
    leave,
    norm,
    sideways,
    tool_to_world,
    turned,
    upright,
)
from sim.tasks.pick_place import SIDE_M, WALL_HEIGHT_M

PHASES = ("approach", "grasp", "carry", "release")
# All lengths are for a robot of scale 1.
# Heights of the cube's centre above where it lies in the bin: over the walls, and where it is dropped from.
_OVER_M = WALL_HEIGHT_M + 0.03
_DROP_M = WALL_HEIGHT_M + 0.01
# So far from the middle of the bin (the larger of x and y) the cube may be let go, and has been.
_WITHIN_M, _PLACED_M = 0.028, 0.036
# So close to the bin, the fingers could stand on its walls.
_BESIDE_M = 0.12


def law(element: Elements) -> Goal:
    """Goal for every world: fetch the cube, carry it over the bin, lower it a little, let go."""
    scale = element.robot.scale
    side, over, drop = SIDE_M * scale, _OVER_M * scale, _DROP_M * scale
    tool, gripper = element("tool"), element("gripper")[:, 0]
    offset = from_middle(element("tool_to_cube")[:, :3], gripper, element.robot.arms[0].gripper)
    cube_yaw = element("tool_to_cube")[:, 3]
    bin_ = element("cube_to_bin")
    across, lift = np.abs(bin_[:, :2]).max(-1), -bin_[:, 2]
    held = between_pads(offset) & (gripper < side + 0.0025)
    above, placed = across < _WITHIN_M * scale, across < _PLACED_M * scale
    inside = above & (lift < drop + 0.004) | placed & (lift < 0.01)

    way = turned(bin_, element("bin")[:, 2:4])
    height = drop + funnel(norm(way), 0.02 * scale, 1.0, over - drop)
    carry = Goal(
        shift=np.concatenate([way * sideways(lift, height), (height - lift)[:, None]], axis=-1),
        turn=upright(tool[:, 6:9], -1.0) + np.zeros_like(VERTICAL),
        opening=np.zeros(len(lift)),
        phase=np.full(len(lift), 2),
        freedom=freedom_at(lift, over),
    )
    reach_z = tool_to_world(tool, offset)[:, 2]
    beside = norm(way) < _BESIDE_M * scale
    yaw = np.where(beside, _clear_of_bin(tool, way, cube_yaw), cube_yaw)
    open_m = np.where(beside, side + 0.012, OPEN_M * scale)
    goal = fetch(tool, offset, yaw, gripper, side, open_m, HOVER_M * scale).where(held, carry)
    return goal.where(inside, leave(reach_z, gripper, side, phase=3, scale=scale))


def _clear_of_bin(tool: Float64, way: Float64, yaw: Float64) -> Float64:
    """The turn `yaw` (n,) rad onto the cube's sides, or onto its other sides where a finger would stand on the bin.

    `way` (n, 2) m leads from the cube to the bin; the fingers, along the tool's y axis, should be across it.
    """
    reach = np.concatenate([way, np.zeros((len(way), 1))], axis=-1)
    along, across = (reach * tool[:, 3:6]).sum(-1), (reach * kinematics.cross(tool[:, 6:9], tool[:, 3:6])).sum(-1)
    blocked = np.abs(np.sin(np.arctan2(across, along) - yaw)) > np.sqrt(0.5)
    quarter = 0.5 * np.pi
    other = (yaw + 2.0 * quarter) % (2.0 * quarter) - quarter
    return np.where(blocked, other, yaw)


GUIDE = Guide(PHASES, law)
