"""The robots that tasks may be done with."""

from robotrl.errors import unknown_name
from sim.robots.aloha import ALOHA
from sim.robots.base import Arm, Gripper, Robot, Workspace
from sim.robots.panda import PANDA
from sim.robots.so101 import SO101

__all__ = ["ALOHA", "PANDA", "ROBOTS", "SO101", "Arm", "Gripper", "Robot", "Workspace", "robot_called"]

ROBOTS: dict[str, Robot] = {robot.name: robot for robot in (PANDA, SO101, ALOHA)}


def robot_called(name: str) -> Robot:
    """The robot of this name; raises `ConfigurationError` with the nearest one when there is none."""
    if name not in ROBOTS:
        raise unknown_name("robot", name, ROBOTS)
    return ROBOTS[name]
