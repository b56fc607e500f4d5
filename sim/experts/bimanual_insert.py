"""Phase table of `bimanual_insert`."""

import numpy as np

from robotrl import kinematics
from robotrl.types import Bool, Float64
from sim.experts.guide import (
    Elements,
    Goal,
    Guide,
    between_pads,
    careful,
    fetch,
    freedom_at,
    funnel,
    level,
    norm,
    sideways,
)
from sim.tasks.bimanual_insert import DEPTH_M, PEG_M, SOCKET_M

PHASES = ("approach", "grasp", "bring", "insert")
# Where the parts are put together: of the socket's middle, and of the peg's while it waits.
_SOCKET, _PEG = np.array([-0.09, -0.02, 0.2]), np.array([0.11, -0.02, 0.2])
_RAISED_M = 0.06
# What is left to go when the peg's end is before the socket, and how near to its axis the peg enters and is inside.
_RIM_M, _OFF_M, _INSIDE_M = DEPTH_M + 0.004, 0.001, 0.006
# The longest lead inside.
_MAX_PUSH_M = 0.012
_RIGHT_WAY = np.array([1.0, 0.0, 0.0])


def law(element: Elements) -> tuple[Goal, Goal]:
    """Goals of both arms for every world: the left one holds the socket still, the right one inserts the peg."""
    socket, peg = element("socket"), element("peg")
    left, left_held = _fetch(element, "left", "socket", SOCKET_M)
    right, right_held = _fetch(element, "right", "peg", PEG_M)
    still = _bring(socket, _SOCKET, element("left_tool"))
    waiting = _bring(peg, _PEG, element("right_tool"))
    # The way to the socket begins when it is where it stays.
    ready = np.where(left_held, np.clip(2.0 - norm(_SOCKET - socket[:, :3]) / 0.02, 0.0, 1.0), 0.0)
    ready = np.where(peg[:, 2] > _RAISED_M, ready, 0.0)
    joining = waiting.blend(ready, _insert(socket, peg, element("peg_to_socket")))
    return left.where(left_held, still), right.where(right_held, joining)


def _fetch(element: Elements, side: str, part: str, width_m: float) -> tuple[Goal, Bool]:
    """The goal of an arm that does not hold its part, and whether (n,) it does."""
    tool, gripper = element(f"{side}_tool"), element(f"{side}_gripper")[:, 0]
    offset, yaw = element(f"{side}_to_{part}")[:, :3], element(f"{side}_to_{part}")[:, 3]
    held = between_pads(offset) & (gripper < width_m + 0.0025)
    return fetch(tool, offset, yaw, gripper, width_m), held


def _bring(part: Float64, place: Float64, tool: Float64) -> Goal:
    """Lift the part (n, 6), position and heading, and take it level to its `place` (3,) m."""
    count, way = len(part), place - part[:, :3]
    shift = np.concatenate([way[:, :2] * sideways(part[:, 2], np.full(count, _RAISED_M)), way[:, 2:]], axis=-1)
    return Goal(
        shift=careful(shift, norm(way), 0.06, 0.015),
        turn=level(part[:, 3:6], np.tile(_RIGHT_WAY, (count, 1)), tool),
        opening=np.zeros(count),
        phase=np.full(count, PHASES.index("bring")),
        freedom=freedom_at(part[:, 2], _RAISED_M) * np.clip(norm(way) / 0.06 - 0.5, 0.0, 1.0),
    )


def _insert(socket: Float64, peg: Float64, missing: Float64) -> Goal:
    """Line the peg (n, 6) up before the socket (n, 6) and push it in; `missing` (n, 4) is the way in m and the roll."""
    axis, count = socket[:, 3:6], len(peg)
    along = (missing[:, :3] * axis).sum(-1)
    left, aside = -along, missing[:, :3] - along[:, None] * axis
    turn = kinematics.cross(peg[:, 3:6], axis) + missing[:, 3:4] * axis
    off = norm(aside) + 0.03 * norm(turn)
    inside = (left < DEPTH_M - 0.003) & (norm(aside) < _INSIDE_M)
    wanted = np.where(inside | (off < _OFF_M), 0.0, _RIM_M + funnel(off, _OFF_M, 4.0, 0.03))
    push = np.maximum(wanted - left, -np.maximum(left - _RIM_M, _MAX_PUSH_M))
    shift = 2.0 * aside * sideways(left, wanted) + push[:, None] * axis
    return Goal(
        shift=careful(shift, norm(aside), 0.012, 0.006),
        turn=turn,
        opening=np.zeros(count),
        phase=np.full(count, PHASES.index("insert")),
        freedom=np.zeros(count),
    )


GUIDE = Guide(PHASES, law)
