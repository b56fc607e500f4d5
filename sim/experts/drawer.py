"""Phase table of `drawer`."""

import numpy as np

from robotrl.types import Bool, Float64
from sim.experts.guide import (
    OPEN_M,
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
from sim.tasks.drawer import HANDLE_M, WALL_TOP_M
from sim.tasks.pick_place import SIDE_M

PHASES = ("approach", "grasp", "pull", "carry", "release", "push")
# How far the drawer is pulled out; from there it may slip back a little before it is pulled again.
_OUT_M, _FAR_ENOUGH_M, _SLIPPED_M = 0.13, 0.122, 0.112
_SHUT_M = 0.004
# Heights of the cube over its place: above the walls, and where it is dropped from.
_DROP_M = WALL_TOP_M - 0.007
_OVER_M = _DROP_M + 0.02
_WITHIN_M = 0.012


def law(element: Elements) -> Goal:
    """Goal for every world: pull the drawer, fetch the cube, drop it in, push the drawer."""
    tool, gripper, opened = element("tool"), element("gripper")[:, 0], element("drawer")[:, 0]
    handle, place = element("tool_to_handle"), element("cube_to_drawer")
    inside = (np.abs(place[:, 0]) < 0.045) & (np.abs(place[:, 1]) < 0.03) & (np.abs(place[:, 2]) < 0.012)
    at_handle = between_pads(handle[:, :3])
    slipped = np.where(at_handle, _FAR_ENOUGH_M, _SLIPPED_M)
    moving = np.where(inside, opened > _SHUT_M, opened < slipped)
    along = np.concatenate([element("cabinet")[:, 2:4], np.zeros((len(opened), 1))], axis=-1)

    cube = _cube(element, tool, gripper, along)
    slide = _slide(tool, handle, gripper, along * (opened - np.where(inside, 0.0, _OUT_M))[:, None], inside)
    # Around the handle, the fingers open and rise before they go anywhere else.
    around = (norm(handle[:, :2]) < 0.035) & (np.abs(handle[:, 2]) < 0.055)
    free = leave(tool_to_world(tool, handle[:, :3])[:, 2], gripper, HANDLE_M, PHASES.index("release"))
    return cube.where(moving, slide).where(~moving & (around | inside), free)


def _slide(tool: Float64, handle: Float64, gripper: Float64, way: Float64, inside: Bool) -> Goal:
    """Grasp the handle and take it along `way` (n, 3) m."""
    held = between_pads(handle[:, :3]) & (gripper < HANDLE_M + 0.0025)
    pull = Goal(
        shift=careful(way, norm(way), 0.03, 0.012),
        turn=upright(tool[:, 6:9], -1.0) - handle[:, 3:4] * VERTICAL,
        opening=np.zeros(len(way)),
        phase=np.where(inside, PHASES.index("push"), PHASES.index("pull")),
        freedom=np.zeros(len(way)),
    )
    return fetch(tool, handle[:, :3], handle[:, 3], gripper, HANDLE_M).where(held, pull)


def _cube(element: Elements, tool: Float64, gripper: Float64, along: Float64) -> Goal:
    """Fetch the cube, carry it over the open drawer, lower it a little, let go."""
    offset, yaw, place = element("tool_to_cube")[:, :3], element("tool_to_cube")[:, 3], element("cube_to_drawer")
    held = between_pads(offset) & (gripper < SIDE_M + 0.0025)
    way = turned(place, along)
    away, lift = norm(way), -place[:, 2]
    there = (away < np.where(held, _WITHIN_M, 0.03)) & (lift < _DROP_M + 0.004)
    # It comes over the handle, which is higher than the walls.
    height = _DROP_M + funnel(away, 0.008, 2.0, 0.1)
    shift = np.concatenate([way * sideways(lift, height), (height - lift)[:, None]], axis=-1)
    carry = Goal(
        shift=careful(shift, away, 0.03, 0.015),
        turn=upright(tool[:, 6:9], -1.0) - element("tool_to_handle")[:, 3:4] * VERTICAL,
        opening=np.zeros(len(lift)),
        phase=np.full(len(lift), PHASES.index("carry")),
        freedom=freedom_at(lift, _OVER_M),
    )
    free = leave(tool_to_world(tool, offset)[:, 2], gripper, SIDE_M, PHASES.index("release"))
    return fetch(tool, offset, yaw, gripper, SIDE_M, OPEN_M).where(held, carry).where(there, free)


GUIDE = Guide(PHASES, law)
