"""Stack: one cube on top of another."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robotrl.types import Bool, Float64, Int64
from sim.robots import Robot
from sim.tasks.base import FAILURES, FIRST, Block, Measurement, Task, View, box_xml, lost, place_in, square_yaw
from sim.tasks.carrying import across, carrying_reward, grasped, reached, released

SIDE_M = 0.04
"""Side of both cubes."""


@dataclass(frozen=True)
class Stack(Task):
    """The orange cube onto the blue one, both free to move; resting there and released is success.

    `tool_to_cube` is zero when the tool is at the centre of the orange cube, `cube_to_place` (along the world's axes)
    when that cube lies in the middle of the blue one's top. Yaws use the four-fold symmetry.
    """

    time_limit_s: float = 15.0

    name: ClassVar[str] = "stack"
    instructions: ClassVar[tuple[str, ...]] = ("put the orange cube on the blue cube",)

    def objects(self, robot: Robot) -> str:
        """The two cubes."""
        xml = ""
        for name, y, rgba in (("cube", 0.0, "0.9 0.45 0.2 1"), ("bottom", 0.2, "0.25 0.4 0.75 1")):
            box = box_xml(name, "object", (0.5 * SIDE_M,) * 3, (0, 0, 0), rgba, mass=0.08)
            xml += f"""
    <body name="{name}" pos="0.5 {y} {0.5 * SIDE_M}"><freejoint name="{name}"/>{box}</body>"""
        return xml

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """The orange cube anywhere in 18 × 30 cm, the blue one in 12 × 8 cm beside it, both turned, the arm above."""
        places = place_in([view.robot.workspace.objects, view.robot.workspace.goals], self.spread, rng)
        physics = view.random_arms(rng, self.spread)
        for name, place in zip(("cube", "bottom"), places, strict=True):
            view.place(physics, name, (*place, 0.5 * SIDE_M), self.spread * rng.uniform(-np.pi / 6, np.pi / 6))
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        tool, cube, bottom = view.poses(physics, view.arm.tool, "cube", "bottom")
        tool_to_cube = tool.local(cube.position - tool.position)
        cube_to_place = bottom.position + np.array([0.0, 0.0, SIDE_M]) - cube.position
        state = (
            *view.robot_blocks(physics, tool),
            Block("cube", ("x", "y", "z"), "m", -1.0, 1.0, cube.position),
            Block("bottom", ("x", "y", "z"), "m", -1.0, 1.0, bottom.position),
            Block("tool_to_cube", ("x", "y", "z"), "m", -1.0, 1.0, tool_to_cube),
            Block("tool_to_cube", ("yaw",), "rad", -0.8, 0.8, square_yaw(tool, cube)),
            Block("cube_to_place", ("x", "y", "z"), "m", -1.0, 1.0, cube_to_place),
            Block("cube_to_place", ("yaw",), "rad", -0.8, 0.8, square_yaw(cube, bottom)),
        )
        stages = _checkpoints(view.opening(physics), tool_to_cube, cube_to_place)
        reward, success = carrying_reward(tool_to_cube, cube_to_place, stages, "stacked")
        reach = view.robot.workspace.reach
        failure = ((lost(cube, reach) | lost(bottom, reach)) * FAILURES.index("out_of_reach")).astype(np.uint8)
        return Measurement(state, view.privileged_blocks(physics, stages), reward, success, failure)


def _checkpoints(opening: Float64, to_cube: Float64, to_place: Float64) -> dict[str, Bool]:
    """The stages (...) that hold at this moment."""
    aside = across(to_place)
    return {
        "reached": reached(to_cube),
        "grasped": grasped(opening, to_cube, SIDE_M),
        "lifted": to_place[..., 2] < SIDE_M - 0.01,
        "over": aside < 0.01,
        "stacked": (aside < 0.018) & (np.abs(to_place[..., 2]) < 0.004),
        "released": released(opening, to_cube, SIDE_M),
    }
