"""Phase table of `handover`."""

import numpy as np

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
    leave,
    level,
    norm,
    park,
    sideways,
    tool_to_world,
)
from sim.tasks.handover import SIDE_M

PHASES = ("approach", "grasp", "bring", "take", "pass", "carry", "release")
# Where the bar is handed over, and where a hand waits that has nothing to do: x away from the middle, y, z.
_MEETING, _WAITING = np.array([0.0, -0.02, 0.17]), np.array([0.18, -0.02, 0.26])
# So near the meeting place the other arm begins to come, and comes at full speed.
_COMING_M, _COME_M = 0.12, 0.05
# Height of the bar over the mat on the way, and where it is let go.
_OVER_M, _GAP_M = 0.06, 0.0015
_WITHIN_M, _WITHIN_RAD = 0.006, 0.06
# Further left than this, the bar is for the left arm to fetch.
_LEFT_M = 0.03
_RIGHT_WAY = np.array([1.0, 0.0, 0.0])


def law(element: Elements) -> tuple[Goal, Goal]:
    """Goals of both arms for every world: the left one brings the bar, the right one takes it away."""
    bar, place = element("bar"), element("bar_to_goal")
    left, right = (_Hand(element, side) for side in ("left", "right"))
    at_goal = (norm(place[:, :2]) < np.where(right.held, _WITHIN_M, 0.018)) & (-place[:, 2] < _GAP_M + 0.0015)
    there = at_goal & (np.abs(place[:, 3]) < np.where(right.held, _WITHIN_RAD, 0.18)) & ~left.held
    return _left(left, right, bar, there), _right(left, right, bar, element, there)


class _Hand:
    """One arm's tool (n, 9), way to its grasp point (n, 3) m, yaw (n,) rad, opening (n,) m, and what follows."""

    def __init__(self, element: Elements, side: str) -> None:
        self.sign = -1.0 if side == "left" else 1.0
        self.tool, self.gripper = element(f"{side}_tool"), element(f"{side}_gripper")[:, 0]
        self.offset, self.yaw = element(f"{side}_to_bar")[:, :3], element(f"{side}_to_bar")[:, 3]
        self.reach = tool_to_world(self.tool, self.offset)
        around = between_pads(self.offset)
        self.held = around & (self.gripper < SIDE_M + 0.0025)
        # Closed so far, the servos press.
        self.firm = around & (self.gripper < SIDE_M + 0.0005)
        # How far the hand is from where it could touch the bar, in [0, 1].
        self.clear = np.clip(np.maximum(-self.reach[:, 2] - 0.015, norm(self.reach[:, :2]) - 0.03) / 0.03, 0.0, 1.0)

    def fetch(self) -> Goal:
        return fetch(self.tool, self.offset, self.yaw, self.gripper, SIDE_M)

    def leave(self, phase: str) -> Goal:
        """Let go, rise, and then wait."""
        free = leave(self.reach[:, 2], self.gripper, SIDE_M, PHASES.index(phase))
        near = (norm(self.reach[:, :2]) < 0.05) & (-self.reach[:, 2] < 0.06)
        return self.wait(phase).where(near, free)

    def wait(self, phase: str) -> Goal:
        place = _WAITING * np.array([self.sign, 1.0, 1.0])
        return park(self.tool, place, self.sign * _RIGHT_WAY, PHASES.index(phase))


def _left(left: _Hand, right: _Hand, bar: Float64, there: Bool) -> Goal:
    """Fetch the bar, bring it to the middle, let go when the other hand has it."""
    count = len(bar)
    way = _MEETING - bar[:, :3]
    shift = np.concatenate([way[:, :2] * sideways(bar[:, 2], np.full(count, 0.06)), way[:, 2:]], axis=-1)
    bring = Goal(
        shift=careful(shift, norm(way), 0.06, 0.015),
        turn=level(bar[:, 3:6], np.tile(_RIGHT_WAY, (count, 1)), left.tool),
        opening=np.zeros(count),
        phase=np.full(count, PHASES.index("bring")),
        freedom=freedom_at(bar[:, 2], 0.06) * np.clip(norm(way) / 0.06 - 0.5, 0.0, 1.0),
    )
    mine = (bar[:, 0] < _LEFT_M) & ~right.held & ~there
    goal = left.wait("approach").where(mine, left.fetch()).where(left.held, bring)
    return goal.where(right.firm | there | (right.held & ~left.held), left.leave("pass"))


def _right(left: _Hand, right: _Hand, bar: Float64, element: Elements, there: Bool) -> Goal:
    """Wait, take the bar in the middle, hold it till the other hand is away, put it on the mat."""
    count, place = len(bar), element("bar_to_goal")
    away, lift = norm(place[:, :2]), -place[:, 2]
    height = np.minimum(_GAP_M + funnel(away + 0.03 * np.abs(place[:, 3]), 0.004, 3.0, 1.0), _OVER_M)
    shift = np.concatenate([place[:, :2] * sideways(lift, height), (height - lift)[:, None]], axis=-1)
    shift = careful(shift, away + np.abs(lift - height), 0.05, 0.012)
    alone = (left.clear * ~left.held)[:, None]
    heading = np.concatenate([element("goal")[:, 2:4], np.zeros((count, 1))], axis=-1)
    carry = Goal(
        shift=shift * alone,
        turn=level(bar[:, 3:6], heading, right.tool) * alone,
        opening=np.zeros(count),
        phase=np.full(count, PHASES.index("carry")),
        freedom=freedom_at(lift, _OVER_M) * alone[:, 0],
    )
    coming = np.clip((_COMING_M - norm(_MEETING - bar[:, :3])) / (_COMING_M - _COME_M), 0.0, 1.0)
    coming = np.where(left.held, coming, np.where((bar[:, 0] > _LEFT_M) & (left.clear > 0.9), 1.0, 0.0))
    goal = right.wait("take").blend(coming, right.fetch()).where(right.held, carry)
    return goal.where(there, right.leave("release"))


GUIDE = Guide(PHASES, law)
