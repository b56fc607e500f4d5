"""Peg in hole: pick a square peg from the table, seat it in a square hole, let go."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robotrl.errors import ConfigurationError
from robotrl.types import Bool, Float64, Int64
from sim.robots import Robot
from sim.tasks.base import FAILURES, FIRST, Block, Measurement, Task, View, box_xml, lost, place_in, square_yaw
from sim.tasks.carrying import across, carrying_reward, grasped, reached, released

WIDTH_M, HEIGHT_M, DEPTH_M = 0.03, 0.07, 0.03
"""Side and height of the peg, depth of the hole."""
GRASP_M = 0.053
"""Height of the grasp point above the foot: the pads, 3 cm tall, stay clear of the walls of the hole."""
WALL_M = 0.025
"""Thickness of the walls around the hole."""

# How far from the middle between the pads a peg that is held can be.
_AROUND_M = (0.018, 0.006, 0.02)
# Cosine of the largest tilt that is not a fall.
_UPRIGHT = np.cos(np.deg2rad(50.0))


@dataclass(frozen=True)
class Insert(Task):
    """A 30 × 30 × 70 mm peg into a hole 30 mm deep; seated and released is success.

    The frame of the peg is the centre of its foot, that of the hole the centre of its floor. `tool_to_peg` is zero when
    the tool is at the grasp point, `peg_to_hole` when the peg is seated. Yaws use the four-fold symmetry.

    Attributes:
        clearance_m: gap on each side of a centred peg.
    """

    clearance_m: float = 0.002

    name: ClassVar[str] = "insert"
    instructions: ClassVar[tuple[str, ...]] = ("insert the peg into the hole",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0005 <= self.clearance_m <= 0.01:
            raise ConfigurationError(f"insert.clearance_m: expected 0.0005 to 0.01 m, got {self.clearance_m}")

    def objects(self, robot: Robot) -> str:
        """The peg, weighted at its foot so that it stands well, and four walls on a mocap body."""
        half, inner = 0.5 * WIDTH_M, 0.5 * WIDTH_M + self.clearance_m
        middle, outer, depth = inner + 0.5 * WALL_M, inner + WALL_M, 0.5 * DEPTH_M
        walls = ""
        for name, x, y, size_x, size_y in (
            ("east", middle, 0, 0.5 * WALL_M, outer),
            ("west", -middle, 0, 0.5 * WALL_M, outer),
            ("north", 0, middle, inner, 0.5 * WALL_M),
            ("south", 0, -middle, inner, 0.5 * WALL_M),
        ):
            walls += box_xml(f"hole_{name}", "fixture", (size_x, size_y, depth), (x, y, depth), "0.25 0.4 0.55 1")
        peg = box_xml("peg", "object", (half, half, 0.5 * HEIGHT_M), (0, 0, 0.5 * HEIGHT_M), "0.9 0.45 0.2 1")
        return f"""
    <body name="peg" pos="0.5 0 0"><freejoint name="peg"/>
      <inertial pos="0 0 0.02" mass="0.12" diaginertia="5e-5 5e-5 2e-5"/>{peg}
    </body>
    <body name="hole" mocap="true" pos="0.5 0.15 0">{walls}
    </body>"""

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """Peg anywhere in 18 × 30 cm, the hole in 12 × 8 cm beside it, both turned, the arm somewhere above."""
        peg, hole = place_in([view.robot.workspace.objects, view.robot.workspace.goals], self.spread, rng)
        physics = view.random_arms(rng, self.spread)
        view.place(physics, "peg", (*peg, 0.0), self.spread * rng.uniform(-np.pi / 6, np.pi / 6))
        view.place(physics, "hole", (*hole, 0.0), self.spread * rng.uniform(-np.pi / 8, np.pi / 8))
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        tool, peg, hole = view.poses(physics, view.arm.tool, "peg", "hole")
        tool_to_peg = tool.local(peg.above(GRASP_M) - tool.position)
        peg_to_hole = hole.local(hole.position - peg.position)
        up, heading = peg.axis(2), hole.axis(0)
        state = (
            *view.robot_blocks(physics, tool),
            Block("peg", ("x", "y", "z"), "m", -1.0, 1.0, peg.position),
            Block("peg", ("zx", "zy"), "1", -1.0, 1.0, up[..., :2]),
            Block("hole", ("x", "y"), "m", -1.0, 1.0, hole.position[..., :2]),
            Block("hole", ("xx", "xy"), "1", -1.0, 1.0, heading[..., :2]),
            Block("tool_to_peg", ("x", "y", "z"), "m", -1.0, 1.0, tool_to_peg),
            Block("tool_to_peg", ("yaw",), "rad", -0.8, 0.8, square_yaw(tool, peg)),
            Block("peg_to_hole", ("x", "y", "z"), "m", -1.0, 1.0, peg_to_hole),
            Block("peg_to_hole", ("yaw",), "rad", -0.8, 0.8, square_yaw(peg, hole)),
        )
        stages = self._checkpoints(view.opening(physics), tool_to_peg, peg_to_hole, up)
        reward, success = carrying_reward(tool_to_peg, peg_to_hole, stages, "seated")
        code = np.where(up[..., 2] < _UPRIGHT, FAILURES.index("tipped"), 0)
        failure = np.where(lost(peg, view.robot.workspace.reach), FAILURES.index("out_of_reach"), code).astype(np.uint8)
        return Measurement(state, view.privileged_blocks(physics, stages), reward, success, failure)

    def _checkpoints(self, opening: Float64, to_peg: Float64, to_hole: Float64, up: Float64) -> dict[str, Bool]:
        """The stages (...) that hold at this moment."""
        aside = across(to_hole)
        return {
            "reached": reached(to_peg),
            "grasped": grasped(opening, to_peg, WIDTH_M, _AROUND_M),
            "lifted": to_hole[..., 2] < -0.01,
            "aligned": aside < self.clearance_m,
            "seated": (aside < self.clearance_m + 0.0015) & (to_hole[..., 2] > -0.004) & (up[..., 2] > 0.99),
            "released": released(opening, to_peg, WIDTH_M),
        }
