"""Reach: bring the tool to a target in the air. The smoke test of everything: it needs no contact and no grasp."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robotrl.types import Float64, Int64
from sim.robots import Robot
from sim.tasks.base import FIRST, Block, Measurement, Task, View, place_in

_RADIUS_M = 0.015
_NEAR_M, _LOW_M, _HIGH_M = 0.06, 0.06, 0.26


@dataclass(frozen=True)
class Reach(Task):
    """The tool's centre into a ball of 15 mm radius, which is success while it is there. Nothing can fail."""

    time_limit_s: float = 5.0

    name: ClassVar[str] = "reach"
    robots: ClassVar[tuple[str, ...]] = ("panda", "so101")
    instructions: ClassVar[tuple[str, ...]] = ("move the gripper to the ball",)

    def objects(self, robot: Robot) -> str:
        """The ball, which nothing can touch, on a mocap body."""
        return f"""
    <body name="ball" mocap="true" pos="0.5 0.1 0.2">
      <geom name="ball" class="shape" type="sphere" size="{_RADIUS_M}" rgba="0.9 0.45 0.2 1"/></body>"""

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """The ball 6 to 26 cm above the area of the objects, or less by the robot's scale, the arm somewhere above."""
        (place,) = place_in([view.robot.workspace.objects], self.spread, rng)
        height = 0.5 * (_LOW_M + _HIGH_M + self.spread * rng.uniform(-1.0, 1.0) * (_HIGH_M - _LOW_M))
        physics = view.random_arms(rng, self.spread)
        view.place(physics, "ball", (*place, height * view.robot.scale), 0.0)
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        tool, ball = view.poses(physics, view.arm.tool, "ball")
        way = ball.position - tool.position
        distance = np.sqrt(np.square(way).sum(-1))
        state = (
            *view.robot_blocks(physics, tool),
            Block("ball", ("x", "y", "z"), "m", -1.0, 1.0, ball.position),
            Block("tool_to_ball", ("x", "y", "z"), "m", -1.0, 1.0, tool.local(way)),
        )
        stages = {"near": distance < _NEAR_M, "reached": distance < _RADIUS_M}
        reward = np.where(stages["reached"], 1.0, 1.0 - np.tanh(5.0 * distance))
        failure = np.zeros(distance.shape, np.uint8)
        return Measurement(state, view.privileged_blocks(physics, stages), reward, stages["reached"], failure)
