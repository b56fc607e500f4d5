"""Drawer: open it, put the cube in, close it. The long task: four things in the right order."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robotrl.types import Bool, Float64, Int64
from sim.robots import Robot
from sim.tasks.base import FAILURES, FIRST, Block, Measurement, Pose, Task, View, box_xml, lost, place_in, square_yaw
from sim.tasks.carrying import away, grasped, opened
from sim.tasks.pick_place import SIDE_M, cube_xml

HANDLE_M = 0.024
"""Width of the handle between the fingers."""
WALL_TOP_M = 0.047
"""Height of the drawer's walls."""
TRAVEL_M = 0.14
"""How far the drawer comes out."""
_FLOOR_M = 0.007
# Of the grasp point and of the place for the cube, in the drawer's frame.
_HANDLE, _PLACE = (-0.079, 0.0, 0.085), (-0.012, 0.0, _FLOOR_M + 0.5 * SIDE_M)
_OPENED_M, _CLOSED_M = 0.11, 0.008
# The drawer comes towards the robot, so the cabinet stands behind the area of the goals.
_BEHIND_M = 0.14
_WOOD, _FRONT = "0.5 0.4 0.3 1", "0.25 0.4 0.55 1"
_CABINET = (
    ("left", (0.0775, 0.004, 0.035), (0.0125, 0.056, 0.035)),
    ("right", (0.0775, 0.004, 0.035), (0.0125, -0.056, 0.035)),
    ("back", (0.005, 0.06, 0.035), (0.085, 0.0, 0.035)),
    ("top", (0.0775, 0.06, 0.004), (0.0125, 0.0, 0.066)),
)
_DRAWER = (
    ("floor", (0.0675, 0.05, 0.002), (0.0025, 0.0, 0.005)),
    ("left", (0.0675, 0.0025, 0.02), (0.0025, 0.0475, 0.027)),
    ("right", (0.0675, 0.0025, 0.02), (0.0025, -0.0475, 0.027)),
    ("back", (0.0025, 0.045, 0.02), (0.0675, 0.0, 0.027)),
    ("front", (0.004, 0.058, 0.0235), (-0.076, 0.0, 0.0265)),
    ("handle", (0.007, 0.5 * HANDLE_M, 0.0275), (-0.079, 0.0, 0.0775)),
)


@dataclass(frozen=True)
class Drawer(Task):
    """A cube into a drawer that has to be opened first and closed after; in, closed and released is success.

    The drawer's frame lies on the table in the middle of the cabinet while it is closed, x away from the robot.
    `tool_to_handle` is zero at the grasp point of the handle, `cube_to_drawer` when the cube lies in the drawer.
    """

    time_limit_s: float = 25.0

    name: ClassVar[str] = "drawer"
    instructions: ClassVar[tuple[str, ...]] = ("open the drawer, put the cube in, and close it",)

    def objects(self, robot: Robot) -> str:
        """The cube, and the cabinet on a mocap body with the drawer on a slide that stays where it is left."""
        cabinet = "".join(box_xml(f"cabinet_{n}", "fixture", size, place, _WOOD) for n, size, place in _CABINET)
        drawer = "".join(
            box_xml(f"drawer_{n}", "fixture", size, place, _FRONT, mass=0.05) for n, size, place in _DRAWER
        )
        return f"""{cube_xml(robot)}
    <body name="cabinet" mocap="true" pos="0.64 0.23 0">{cabinet}
      <body name="drawer">
        <joint name="drawer" type="slide" axis="-1 0 0" range="0 {TRAVEL_M}" damping="4" frictionloss="0.6"/>{drawer}
      </body>
    </body>"""

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """The cube anywhere in 18 × 30 cm, the cabinet behind the area beside it, the drawer closed, the arm above."""
        cube, cabinet = place_in([view.robot.workspace.objects, view.robot.workspace.goals], self.spread, rng)
        physics = view.random_arms(rng, self.spread)
        view.place(physics, "cube", (*cube, 0.5 * SIDE_M), self.spread * rng.uniform(-np.pi / 6, np.pi / 6))
        yaw = self.spread * rng.uniform(-np.pi / 18, np.pi / 18)
        view.place(physics, "cabinet", (cabinet[0] + _BEHIND_M, cabinet[1], 0.0), yaw)
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        tool, cube, cabinet, drawer = view.poses(physics, view.arm.tool, "cube", "cabinet", "drawer")
        out = np.maximum(-cabinet.local(drawer.position - cabinet.position)[..., 0], 0.0)
        tool_to_cube = tool.local(cube.position - tool.position)
        tool_to_handle = tool.local(_point(drawer, _HANDLE) - tool.position)
        cube_to_drawer = drawer.local(_point(drawer, _PLACE) - cube.position)
        state = (
            *view.robot_blocks(physics, tool),
            Block("cube", ("x", "y", "z"), "m", -1.0, 1.0, cube.position),
            Block("cabinet", ("x", "y"), "m", -1.0, 1.0, cabinet.position[..., :2]),
            Block("cabinet", ("xx", "xy"), "1", -1.0, 1.0, cabinet.axis(0)[..., :2]),
            Block("drawer", ("opening",), "m", 0.0, TRAVEL_M + 0.01, out[..., None]),
            Block("tool_to_cube", ("x", "y", "z"), "m", -1.0, 1.0, tool_to_cube),
            Block("tool_to_cube", ("yaw",), "rad", -0.8, 0.8, square_yaw(tool, cube)),
            Block("tool_to_handle", ("x", "y", "z"), "m", -1.0, 1.0, tool_to_handle),
            Block("tool_to_handle", ("yaw",), "rad", -0.8, 0.8, square_yaw(tool, drawer)),
            Block("cube_to_drawer", ("x", "y", "z"), "m", -1.0, 1.0, cube_to_drawer),
        )
        stages = _checkpoints(view.opening(physics), out, tool_to_cube, tool_to_handle, cube_to_drawer)
        success = stages["placed"] & stages["closed"] & stages["released"]
        # A drawer that was closed over the cube lies behind what the arm can fetch, which is as it should be.
        gone = lost(cube, view.robot.workspace.reach) & ~stages["placed"]
        failure = (gone * FAILURES.index("out_of_reach")).astype(np.uint8)
        share = np.clip(out / _OPENED_M, 0.0, 1.0)
        first = 0.2 * share + share * 0.2 * stages["grasped"]
        reward = np.where(stages["placed"], 0.6 + 0.3 * (1.0 - share), first)
        return Measurement(
            state, view.privileged_blocks(physics, stages), np.where(success, 1.0, reward), success, failure
        )


def _point(frame: Pose, at: tuple[float, float, float]) -> Float64:
    """World coordinates (..., 3) of a point of the frame."""
    return frame.position + at[0] * frame.axis(0) + at[1] * frame.axis(1) + at[2] * frame.axis(2)


def _checkpoints(
    opening: Float64, out: Float64, to_cube: Float64, to_handle: Float64, to_drawer: Float64
) -> dict[str, Bool]:
    """The stages (...) that hold at this moment."""
    place = np.abs(to_drawer)
    return {
        "opened": out > _OPENED_M,
        "grasped": grasped(opening, to_cube, SIDE_M),
        "placed": (place[..., 0] < 0.045) & (place[..., 1] < 0.03) & (place[..., 2] < 0.012),
        "closed": out < _CLOSED_M,
        "released": opened(opening, SIDE_M) | (away(to_handle) & away(to_cube)),
    }
