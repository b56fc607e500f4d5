"""Tasks: what lies on the table, where it starts, and what counts as success and failure."""

from sim.tasks.base import Task
from sim.tasks.bimanual_insert import BimanualInsert
from sim.tasks.conveyor import Conveyor
from sim.tasks.drawer import Drawer
from sim.tasks.handover import Handover
from sim.tasks.insert import Insert
from sim.tasks.pick_place import PickPlace
from sim.tasks.reach import Reach
from sim.tasks.sort import Sort
from sim.tasks.stack import Stack

__all__ = ["PAIRS", "TASKS", "Task"]

_ALL: tuple[type[Task], ...] = (BimanualInsert, Conveyor, Drawer, Handover, Insert, PickPlace, Reach, Sort, Stack)

TASKS: dict[str, type[Task]] = {task.name: task for task in _ALL}

PAIRS = tuple((name, robot) for name, task in TASKS.items() for robot in task.robots)
"""Every task with every robot that it is done with."""
