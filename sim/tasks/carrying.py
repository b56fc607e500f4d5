"""What tasks share that are about taking one thing to its place: how far along the hand is, and the reward for it."""

from collections.abc import Mapping

import numpy as np

from robotrl.types import Bool, Float64

_GRIP_M, _SLACK_M, _AWAY_M = 0.0025, 0.006, 0.06


def reached(to_item: Float64) -> Bool:
    """Whether the tool (...) is at the grasp point, which is at `to_item` (..., 3) m in the tool's frame."""
    return np.abs(to_item).max(-1) < 0.01


def grasped(
    opening: Float64, to_item: Float64, width_m: float, around_m: tuple[float, float, float] = (0.022, 0.006, 0.025)
) -> Bool:
    """Whether the pads, `opening` (...) m apart, hold a thing of this width (...).

    Its grasp point, at `to_item` (..., 3) m in the tool's frame, is at most `around_m` from the middle between them.
    """
    offset = np.abs(to_item)
    x, y, z = around_m
    between = (offset[..., 0] < x) & (offset[..., 1] < y) & (offset[..., 2] < z)
    return between & (np.abs(opening - width_m) < _GRIP_M)


def opened(opening: Float64, width_m: float) -> Bool:
    """Whether the pads, `opening` (...) m apart, cannot hold something of this width."""
    return opening > width_m + _SLACK_M


def away(to_item: Float64) -> Bool:
    """Whether the tool (...) is nowhere near the grasp point at `to_item` (..., 3) m."""
    return np.abs(to_item).max(-1) > _AWAY_M


def released(opening: Float64, to_item: Float64, width_m: float) -> Bool:
    """Whether the hand (...) does not hold the thing of this width."""
    return opened(opening, width_m) | away(to_item)


def across(to_place: Float64) -> Float64:
    """The larger of the two horizontal distances (...) m of `to_place` (..., 3) m."""
    return np.maximum(np.abs(to_place[..., 0]), np.abs(to_place[..., 1]))


def carrying_reward(
    to_item: Float64, to_place: Float64, stages: Mapping[str, Bool], placed: str
) -> tuple[Float64, Bool]:
    """Reward (...) in [0, 1] and success (...): the thing is `placed` and released.

    The reward grows as the tool nears the thing, which is `to_item` (..., 3) m away, and as the thing that is held
    nears its place, `to_place` (..., 3) m away.
    """
    success = stages[placed] & stages["released"]
    held = stages["grasped"] | stages[placed]
    partial = 0.2 * nearness(to_item) + held * (0.2 + 0.3 * nearness(to_place)) + 0.2 * stages[placed]
    return np.where(success, 1.0, partial), success


def nearness(way: Float64) -> Float64:
    """1 (...) at the end of the `way` (..., 3) m, falling to 0 some 20 cm from it."""
    return 1.0 - np.tanh(10.0 * np.sqrt(np.square(way).sum(-1)))
