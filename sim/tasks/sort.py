"""Sort: what to do is said in words, over colours, shapes, bins and relations, some of which training never hears."""

from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np

from robotrl.errors import unknown_name
from robotrl.types import Bool, Float64, Int64
from sim.robots import Robot
from sim.tasks.base import FAILURES, FIRST, Block, Measurement, Pose, Task, View, box_xml, lost, place_in, square_yaw
from sim.tasks.carrying import across, carrying_reward, grasped, reached, released

SIDE_M = 0.04
"""Side of the cubes; height and diameter of the can."""
WALL_HEIGHT_M = 0.02
"""Height of the walls of the bins above their floors."""
KINDS = ("bin", "beside", "on")
"""Where things go: into a bin, to the table before or behind a thing, onto a cube."""
ITEMS = ("red_cube", "blue_cube", "red_can")
_BINS = ("near", "middle", "far")
_INNER_M, _WALL_M, _FLOOR_M, _BESIDE_M = 0.036, 0.004, 0.004, 0.07
_PITCH_M = 2.0 * _INNER_M + _WALL_M
_LIES_M = 0.5 * SIDE_M


@dataclass(frozen=True)
class _Order:
    """One instruction: which item goes where; `to` is a bin, or another item, away from which it lies `shift_m`."""

    text: str
    item: int
    kind: int
    to: int
    shift_m: float = 0.0


def _orders() -> tuple[_Order, ...]:
    items, words = range(len(ITEMS)), [name.replace("_", " ") for name in ITEMS]
    found = [_Order(f"put the {words[i]} into the {name} bin", i, 0, b) for i in items for b, name in enumerate(_BINS)]
    for i, other in permutations(items, 2):
        pair = f"put the {words[i]} {{}} the {words[other]}"
        found.append(_Order(pair.format("in front of"), i, 1, other, -_BESIDE_M))
        found.append(_Order(pair.format("behind"), i, 1, other, _BESIDE_M))
        if "cube" in ITEMS[other]:
            found.append(_Order(pair.format("on"), i, 2, other))
    return tuple(found)


ORDERS = _orders()
HELD_OUT = tuple(range(2, len(ORDERS), 5))
"""Instructions whose words training hears, but never in this combination."""
COMBINATIONS = {
    "training": tuple(i for i in range(len(ORDERS)) if i not in HELD_OUT),
    "held_out": HELD_OUT,
    "all": tuple(range(len(ORDERS))),
}
"""Instructions that may be drawn, by what `Sort.combinations` says."""
_ITEM, _KIND, _TO = (np.array([getattr(order, name) for order in ORDERS]) for name in ("item", "kind", "to"))
_SHIFT_M = np.array([order.shift_m for order in ORDERS])


@dataclass(frozen=True)
class Sort(Task):
    """Three things and a tray of three bins on the table; the thing asked for, in its place and released, is success.

    In front of a thing is nearer to the robot, behind it farther away. The state names no instruction, but says what it
    comes to: `object` is the thing asked for, `object_to_place` (along the world's axes) is zero when it is in its
    place, `goal` is one of `KINDS`. A policy that is to understand the words leaves these out.

    Attributes:
        combinations: instructions to draw from, "training", "held_out" or "all".
    """

    time_limit_s: float = 15.0
    combinations: str = "training"

    name: ClassVar[str] = "sort"
    instructions: ClassVar[tuple[str, ...]] = tuple(order.text for order in ORDERS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.combinations not in COMBINATIONS:
            raise unknown_name("choice of sort.combinations", self.combinations, COMBINATIONS)

    def choose(self, rng: np.random.Generator) -> int:
        """Index of the instruction of an episode, one of `combinations`."""
        chosen = COMBINATIONS[self.combinations]
        return chosen[int(rng.integers(len(chosen)))]

    def objects(self, robot: Robot) -> str:
        """Two cubes, a can, and the tray on a mocap body."""
        xml = ""
        for name, y, rgba in ((ITEMS[0], -0.2, "0.8 0.2 0.15 1"), (ITEMS[1], -0.1, "0.2 0.35 0.8 1")):
            box = box_xml(name, "object", (_LIES_M,) * 3, (0, 0, 0), rgba, mass=0.08)
            xml += f"""
    <body name="{name}" pos="0.5 {y} {_LIES_M}"><freejoint name="{name}"/>{box}</body>"""
        xml += f"""
    <body name="{ITEMS[2]}" pos="0.5 0 {_LIES_M}"><freejoint name="{ITEMS[2]}"/>
      <geom name="{ITEMS[2]}" class="object" type="cylinder" size="{_LIES_M} {_LIES_M}" mass="0.08"
            rgba="0.8 0.2 0.15 1"/>
    </body>"""
        return f"""{xml}
    <body name="tray" mocap="true" pos="0.5 0.2 0">{_tray_xml()}</body>"""

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """The things in any order, one in each of three strips of the area, the tray beside it, all turned."""
        x_low, x_high, y_low, y_high = view.robot.workspace.objects
        step = (y_high - y_low - SIDE_M) / 2.0
        middles = [y_low + 0.5 * SIDE_M + k * step for k in range(3)]
        strips = [(x_low, x_high, y - 0.012, y + 0.012) for y in middles]
        *places, tray = place_in([*strips, view.robot.workspace.goals], self.spread, rng)
        physics = view.random_arms(rng, self.spread)
        for item, place in zip(rng.permutation(len(ITEMS)), places, strict=True):
            view.place(physics, ITEMS[item], (*place, _LIES_M), self.spread * rng.uniform(-np.pi / 6, np.pi / 6))
        view.place(physics, "tray", (*tray, 0.0), self.spread * rng.uniform(-np.pi / 12, np.pi / 12))
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        tool, *items, tray = view.poses(physics, view.arm.tool, *ITEMS, "tray")
        order = np.broadcast_to(instruction, physics.shape[:-1])
        item, kind = _of(items, _ITEM[order]), _KIND[order]
        to_place = _place(items, tray, order) - item.position
        tool_to_item = tool.local(item.position - tool.position)
        state = (
            *view.robot_blocks(physics, tool),
            *(Block(name, ("x", "y", "z"), "m", -1.0, 1.0, p.position) for name, p in zip(ITEMS, items, strict=True)),
            Block("tray", ("x", "y"), "m", -1.0, 1.0, tray.position[..., :2]),
            Block("tray", ("xx", "xy"), "1", -1.0, 1.0, tray.axis(0)[..., :2]),
            Block("goal", KINDS, "1", 0.0, 1.0, (kind[..., None] == np.arange(len(KINDS))).astype(np.float64)),
            Block("object", ("x", "y", "z"), "m", -1.0, 1.0, item.position),
            Block("tool_to_object", ("x", "y", "z"), "m", -1.0, 1.0, tool_to_item),
            Block("tool_to_object", ("yaw",), "rad", -0.8, 0.8, square_yaw(tool, item)),
            Block("object_to_place", ("x", "y", "z"), "m", -1.0, 1.0, to_place),
        )
        stages = _checkpoints(view.opening(physics), tool_to_item, to_place, kind)
        reward, success = carrying_reward(tool_to_item, to_place, stages, "placed")
        gone = np.logical_or.reduce([lost(each, view.robot.workspace.reach) for each in items])
        failure = (gone * FAILURES.index("out_of_reach")).astype(np.uint8)
        return Measurement(state, view.privileged_blocks(physics, stages), reward, success, failure)


def _of(poses: list[Pose], which: Int64) -> Pose:
    """Of every state (...) the pose that `which` (...) names."""
    position, rotation = poses[0].position, poses[0].rotation
    for index, pose in enumerate(poses[1:], start=1):
        here = (which == index)[..., None]
        position = np.where(here, pose.position, position)
        rotation = np.where(here[..., None], pose.rotation, rotation)
    return Pose(position, rotation)


def _place(items: list[Pose], tray: Pose, order: Int64) -> Float64:
    """Where the thing asked for should have its middle, (..., 3) m."""
    kind, to = _KIND[order], _TO[order]
    in_bin = tray.above(_FLOOR_M + _LIES_M) + tray.axis(0) * ((to - 1.0) * _PITCH_M)[..., None]
    other = _of(items, to).position
    beside = np.stack([other[..., 0] + _SHIFT_M[order], other[..., 1], np.full(order.shape, _LIES_M)], axis=-1)
    on = other + np.array([0.0, 0.0, SIDE_M])
    return np.where((kind == 0)[..., None], in_bin, np.where((kind == 1)[..., None], beside, on))


def _tray_xml() -> str:
    """A floor, two long walls, and four walls across: three bins in a row along x."""
    length, width, half = 1.5 * _PITCH_M + 0.5 * _WALL_M, _INNER_M + _WALL_M, 0.5 * WALL_HEIGHT_M
    colour, height = "0.55 0.55 0.5 1", _FLOOR_M + half
    xml = box_xml("tray_floor", "fixture", (length, width, 0.5 * _FLOOR_M), (0, 0, 0.5 * _FLOOR_M), colour)
    for name, y in (("left", width - 0.5 * _WALL_M), ("right", 0.5 * _WALL_M - width)):
        xml += box_xml(f"tray_{name}", "fixture", (length, 0.5 * _WALL_M, half), (0, y, height), colour)
    for k in range(4):
        place = ((k - 1.5) * _PITCH_M, 0.0, height)
        xml += box_xml(f"tray_{k}", "fixture", (0.5 * _WALL_M, _INNER_M, half), place, colour)
    return xml


def _checkpoints(opening: Float64, to_item: Float64, to_place: Float64, kind: Int64) -> dict[str, Bool]:
    """The stages (...) that hold at this moment."""
    aside = across(to_place)
    inside = np.where(kind == 0, _INNER_M - 0.012, 0.018)
    return {
        "reached": reached(to_item),
        "grasped": grasped(opening, to_item, SIDE_M),
        "over": aside < inside,
        "placed": (aside < inside) & (np.abs(to_place[..., 2]) < np.where(kind == 0, 0.01, 0.004)),
        "released": released(opening, to_item, SIDE_M),
    }
