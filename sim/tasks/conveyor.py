"""Conveyor: a cube that a belt carries past has to be picked on the move, so that latency costs success."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from robotrl.types import Float64, Int64
from sim.robots import Robot
from sim.tasks.base import FIRST, Block, Measurement, View, box_xml
from sim.tasks.pick_place import SIDE_M, PickPlace, bin_xml, cube_xml

BELT_M = 0.004
"""Height of the belt's top over the table: so low that a finger may stand on it and still grasp what fell off."""
_HALF_LENGTH_M, _HALF_WIDTH_M, _GAP_M = 0.9, 0.06, 0.001
# Heavy enough that no arm slows it down: it keeps the speed that it starts with.
_BELT_KG = 500.0
_STRIPES = 9
_SLOWEST_M_S, _FASTEST_M_S = 0.03, 0.08
_AHEAD_M, _BEYOND_M = 0.1, 0.16


@dataclass(frozen=True)
class Conveyor(PickPlace):
    """`pick_place` of a cube that moves at 3 to 8 cm/s along y; carried past the arm's reach is failure.

    With `difficulty` the belt gets faster. The state also holds the belt's speed, as its encoder would report it.
    """

    name: ClassVar[str] = "conveyor"
    robots: ClassVar[tuple[str, ...]] = ("panda",)
    instructions: ClassVar[tuple[str, ...]] = ("put the moving cube into the bin",)

    def objects(self, robot: Robot) -> str:
        """The belt with its stripes, on a slide without friction, the cube on it, and the bin on a mocap body."""
        middle = _GAP_M + 0.5 * (BELT_M - _GAP_M)
        size = (_HALF_WIDTH_M, _HALF_LENGTH_M, middle - _GAP_M)
        belt = box_xml("belt", "fixture", size, (0, 0, middle), "0.25 0.26 0.28 1", mass=_BELT_KG)
        for k in range(_STRIPES):
            place = (0, (2 * k / (_STRIPES - 1) - 1) * (_HALF_LENGTH_M - 0.05), BELT_M)
            belt += box_xml(f"stripe_{k}", "shape", (_HALF_WIDTH_M, 0.01, 0.0003), place, "0.75 0.7 0.3 1", mass=0.0)
        x, _ = _middle(robot)
        return f"""
    <body name="belt" pos="{x} 0 0"><joint name="belt" type="slide" axis="0 1 0"/>{belt}</body>
    {cube_xml(robot, BELT_M)}
    {bin_xml(robot)}"""

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """The cube where the belt brings it in, on its way to the arm; the bin behind the belt."""
        physics = view.random_arms(rng, self.spread)
        x, y = _middle(view.robot)
        shift = self.spread * rng.uniform(-1.0, 1.0, 4)
        speed = _SLOWEST_M_S + (_FASTEST_M_S - _SLOWEST_M_S) * self.spread * rng.uniform()
        physics[view.slides["belt"]] = speed
        cube = (x + 0.03 * shift[0], y - _AHEAD_M + 0.06 * shift[1], BELT_M + 0.5 * SIDE_M)
        view.place(physics, "cube", cube, shift[2] * np.pi / 6)
        start = view.free["cube"]
        physics[start + 1] = speed
        view.place(physics, "bin", (x + _BEYOND_M, y + 0.1 + 0.06 * shift[3], 0.0), 0.0)
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        found = super().measure(view, physics, instruction)
        speed = physics[..., view.slides["belt"], None]
        return replace(found, state=(*found.state, Block("belt", ("speed",), "m/s", -0.2, 0.2, speed)))


def _middle(robot: Robot) -> tuple[float, float]:
    """The middle of the area in which objects start, x and y in m."""
    x_low, x_high, y_low, y_high = robot.workspace.objects
    return 0.5 * (x_low + x_high), 0.5 * (y_low + y_high)
