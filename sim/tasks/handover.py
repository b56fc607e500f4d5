"""Handover: one arm picks up a bar, the other takes it in the middle and puts it on a mat on its own side."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robotrl.types import Bool, Float64, Int64
from sim.robots import Robot
from sim.tasks.base import (
    FAILURES,
    FIRST,
    Block,
    Measurement,
    Pose,
    Task,
    View,
    box_xml,
    lost,
    on_end,
    place_in,
    rod_heading,
    rod_yaw,
)
from sim.tasks.carrying import across, grasped, nearness, reached, released

LENGTH_M, SIDE_M = 0.2, 0.03
"""Of the bar, which is square across."""
GRASP_M, RAISED_M = 0.065, 0.003
"""From the middle of the bar to where an arm holds it: towards the arm, and up."""
_BAR_KG = 0.1
# In the tool's frame, along the bar a hand may be further off than across.
_AROUND_M = (0.022, 0.006, 0.018)
_WITHIN_M, _WITHIN_RAD = 0.02, 0.2


@dataclass(frozen=True)
class Handover(Task):
    """A bar of 20 cm from the left side of the table to a mat on the right one; on it and released is success.

    The bar's frame is its centre; its heading is its long axis, towards the right arm, as the two ends are alike.
    `left_to_bar` and `right_to_bar` are zero when a tool is at its own grasp point, near its own end of the bar;
    `bar_to_goal`, along the world's axes, when the bar lies in the middle of the mat.
    """

    time_limit_s: float = 20.0

    name: ClassVar[str] = "handover"
    robots: ClassVar[tuple[str, ...]] = ("aloha",)
    instructions: ClassVar[tuple[str, ...]] = ("hand the bar over and put it on the mat",)

    def objects(self, robot: Robot) -> str:
        """The bar, and the mat, which nothing can touch, on a mocap body."""
        half = 0.5 * SIDE_M
        bar = box_xml("bar", "object", (0.5 * LENGTH_M, half, half), (0, 0, 0), "0.9 0.45 0.2 1", mass=_BAR_KG)
        mat = box_xml("goal", "shape", (0.5 * LENGTH_M, half + 0.01, 0.001), (0, 0, 0.0005), "0.25 0.4 0.55 1")
        return f"""
    <body name="bar" pos="-0.27 0 {half}"><freejoint name="bar"/>{bar}</body>
    <body name="goal" mocap="true" pos="0.27 0 0">{mat}</body>"""

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """Bar and mat anywhere in their areas of the workspace, both turned, the arms somewhere above."""
        bar, goal = place_in([view.robot.workspace.objects, view.robot.workspace.goals], self.spread, rng)
        physics = view.random_arms(rng, self.spread)
        view.place(physics, "bar", (*bar, 0.5 * SIDE_M), self.spread * rng.uniform(-np.pi / 6, np.pi / 6))
        view.place(physics, "goal", (*goal, 0.0), self.spread * rng.uniform(-np.pi / 8, np.pi / 8))
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        left, right, bar, goal = view.poses(physics, *(arm.tool for arm in view.robot.arms), "bar", "goal")
        heading = rod_heading(bar)
        left_to_bar, right_to_bar = (_to_grasp(tool, bar, heading, end) for tool, end in ((left, -1), (right, 1)))
        bar_to_goal = goal.above(0.5 * SIDE_M) - bar.position
        yaw = rod_yaw(bar, goal.axis(0))
        state = (
            *view.robot_blocks(physics, left, right),
            Block("bar", ("x", "y", "z"), "m", -1.0, 1.0, bar.position),
            Block("bar", ("xx", "xy", "xz"), "1", -1.0, 1.0, heading),
            Block("goal", ("x", "y"), "m", -1.0, 1.0, goal.position[..., :2]),
            Block("goal", ("xx", "xy"), "1", -1.0, 1.0, goal.axis(0)[..., :2]),
            Block("left_to_bar", ("x", "y", "z"), "m", -1.0, 1.0, left_to_bar),
            Block("left_to_bar", ("yaw",), "rad", -1.6, 1.6, rod_yaw(left, heading)),
            Block("right_to_bar", ("x", "y", "z"), "m", -1.0, 1.0, right_to_bar),
            Block("right_to_bar", ("yaw",), "rad", -1.6, 1.6, rod_yaw(right, heading)),
            Block("bar_to_goal", ("x", "y", "z"), "m", -1.0, 1.0, bar_to_goal),
            Block("bar_to_goal", ("yaw",), "rad", -1.6, 1.6, yaw),
        )
        openings = [view.opening(physics, arm) for arm in view.robot.arms]
        stages = _checkpoints(openings, left_to_bar, right_to_bar, bar_to_goal, yaw[..., 0])
        success = stages["placed"] & stages["released"]
        code = np.where(on_end(heading), FAILURES.index("tipped"), 0)
        gone = lost(bar, view.robot.workspace.reach)
        failure = np.where(gone, FAILURES.index("out_of_reach"), code).astype(np.uint8)
        reward = np.where(success, 1.0, _reward(stages, left_to_bar, right_to_bar, bar_to_goal))
        return Measurement(state, view.privileged_blocks(physics, stages), reward, success, failure)


def _to_grasp(tool: Pose, bar: Pose, heading: Float64, end: int) -> Float64:
    """From the tool to where it holds the bar, near the end (1 or -1) along its `heading`: (..., 3) m in its frame."""
    way = bar.position + (end * GRASP_M) * heading - tool.position
    return tool.local(way + np.array([0.0, 0.0, RAISED_M]))


def _checkpoints(
    openings: list[Float64], to_left: Float64, to_right: Float64, to_goal: Float64, yaw: Float64
) -> dict[str, Bool]:
    """The stages (...) that hold at this moment."""
    free = [released(opening, to_bar, SIDE_M) for opening, to_bar in zip(openings, (to_left, to_right), strict=True)]
    received = grasped(openings[1], to_right, SIDE_M, _AROUND_M)
    lying = np.abs(to_goal[..., 2]) < 0.004
    return {
        "reached": reached(to_left),
        "grasped": grasped(openings[0], to_left, SIDE_M, _AROUND_M),
        "lifted": to_goal[..., 2] < -0.05,
        "received": received,
        "passed": received & free[0],
        "placed": lying & (across(to_goal) < _WITHIN_M) & (np.abs(yaw) < _WITHIN_RAD),
        "released": free[0] & free[1],
    }


def _reward(stages: dict[str, Bool], to_left: Float64, to_right: Float64, to_goal: Float64) -> Float64:
    """What is done of the way (...), below 1: fetched, lifted towards the other hand, passed on, taken to the goal."""
    fetching = 0.15 * nearness(to_left) + stages["grasped"] * (0.15 + 0.15 * nearness(to_right))
    taking = 0.45 + 0.1 * stages["passed"] + 0.25 * nearness(to_goal)
    return np.where(stages["placed"], 0.85, np.where(stages["received"], taking, fetching))
