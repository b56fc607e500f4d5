"""Pick and place: a cube from the table into a bin."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robotrl.types import Bool, Float64, Int64
from sim.robots import Robot
from sim.tasks.base import FAILURES, FIRST, Block, Measurement, Task, View, box_xml, lost, place_in, square_yaw
from sim.tasks.carrying import across, carrying_reward, grasped, reached, released

SIDE_M = 0.04
"""Side of the cube, for a robot of scale 1."""
WALL_HEIGHT_M = 0.03
"""Height of the walls of the bin above its floor, for a robot of scale 1."""
_INNER_M, _WALL_M, _FLOOR_M = 0.05, 0.005, 0.004
_CUBE_KG = 0.08


@dataclass(frozen=True)
class PickPlace(Task):
    """A 40 mm cube into an open bin of 10 × 10 cm, or smaller by the robot's scale; in it and released is success.

    The frame of the cube is its centre. `tool_to_cube` is zero when the tool is at the centre, `cube_to_bin` when the
    cube lies in the middle of the bin. Yaws use the four-fold symmetry.
    """

    time_limit_s: float = 12.0

    name: ClassVar[str] = "pick_place"
    robots: ClassVar[tuple[str, ...]] = ("panda", "so101")
    instructions: ClassVar[tuple[str, ...]] = ("put the cube into the bin",)

    def objects(self, robot: Robot) -> str:
        """The cube, and the bin on a mocap body."""
        return cube_xml(robot) + bin_xml(robot)

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """Cube and bin anywhere in their areas of the workspace, both turned, the arm somewhere above."""
        cube, bin_ = place_in([view.robot.workspace.objects, view.robot.workspace.goals], self.spread, rng)
        physics = view.random_arms(rng, self.spread)
        view.place(
            physics, "cube", (*cube, 0.5 * SIDE_M * view.robot.scale), self.spread * rng.uniform(-np.pi / 6, np.pi / 6)
        )
        view.place(physics, "bin", (*bin_, 0.0), self.spread * rng.uniform(-np.pi / 8, np.pi / 8))
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        tool, cube, bin_ = view.poses(physics, view.arm.tool, "cube", "bin")
        tool_to_cube = tool.local(cube.position - tool.position)
        cube_to_bin = bin_.local(bin_.above(_FLOOR_M + 0.5 * SIDE_M * view.robot.scale) - cube.position)
        state = (
            *view.robot_blocks(physics, tool),
            Block("cube", ("x", "y", "z"), "m", -1.0, 1.0, cube.position),
            Block("bin", ("x", "y"), "m", -1.0, 1.0, bin_.position[..., :2]),
            Block("bin", ("xx", "xy"), "1", -1.0, 1.0, bin_.axis(0)[..., :2]),
            Block("tool_to_cube", ("x", "y", "z"), "m", -1.0, 1.0, tool_to_cube),
            Block("tool_to_cube", ("yaw",), "rad", -0.8, 0.8, square_yaw(tool, cube)),
            Block("cube_to_bin", ("x", "y", "z"), "m", -1.0, 1.0, cube_to_bin),
        )
        stages = _checkpoints(view.opening(physics), tool_to_cube, cube_to_bin, view.robot.scale)
        reward, success = carrying_reward(tool_to_cube, cube_to_bin, stages, "placed")
        failure = (lost(cube, view.robot.workspace.reach) * FAILURES.index("out_of_reach")).astype(np.uint8)
        return Measurement(state, view.privileged_blocks(physics, stages), reward, success, failure)


def cube_xml(robot: Robot, height_m: float = 0.0) -> str:
    """MJCF of the cube, `height_m` above the table."""
    half, mass = 0.5 * SIDE_M * robot.scale, _CUBE_KG * robot.scale**3
    cube = box_xml("cube", "object", (half,) * 3, (0, 0, 0), "0.9 0.45 0.2 1", mass=mass)
    return f"""
    <body name="cube" pos="0.5 0 {height_m + half}"><freejoint name="cube"/>{cube}</body>"""


def bin_xml(robot: Robot) -> str:
    """MJCF of the bin: a floor and four walls on a mocap body."""
    inner, half = _INNER_M * robot.scale, 0.5 * WALL_HEIGHT_M * robot.scale
    outer, middle, height = inner + _WALL_M, inner + 0.5 * _WALL_M, _FLOOR_M + half
    colour = "0.25 0.4 0.55 1"
    walls = box_xml("bin_floor", "fixture", (outer, outer, 0.5 * _FLOOR_M), (0, 0, 0.5 * _FLOOR_M), colour)
    for name, x, y, size_x, size_y in (
        ("east", middle, 0, 0.5 * _WALL_M, outer),
        ("west", -middle, 0, 0.5 * _WALL_M, outer),
        ("north", 0, middle, inner, 0.5 * _WALL_M),
        ("south", 0, -middle, inner, 0.5 * _WALL_M),
    ):
        walls += box_xml(f"bin_{name}", "fixture", (size_x, size_y, half), (x, y, height), colour)
    return f"""
    <body name="bin" mocap="true" pos="0.5 0.15 0">{walls}</body>"""


def _checkpoints(opening: Float64, to_cube: Float64, to_bin: Float64, scale: float) -> dict[str, Bool]:
    """The stages (...) that hold at this moment, for a robot of this scale."""
    side, inner = SIDE_M * scale, _INNER_M * scale
    aside = across(to_bin)
    return {
        "reached": reached(to_cube),
        "grasped": grasped(opening, to_cube, side),
        "lifted": to_bin[..., 2] < -0.01,
        "over": aside < inner - 0.5 * side,
        "placed": (aside < inner - 0.01) & (np.abs(to_bin[..., 2]) < 0.012),
        "released": released(opening, to_cube, side),
    }
