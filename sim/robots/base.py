"""A robot as a value: its arms and grippers, what its actions mean, and where it works."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from robotrl.specs import ArraySpec
from robotrl.types import Float32, Float64

Area = tuple[float, float, float, float]
"""A rectangle of the table: x low, x high, y low, y high in m."""

_WRIST_FOV_DEG = 75.0


@dataclass(frozen=True)
class Gripper:
    """Fingers that one command drives; the command is the opening between the pads in m.

    Attributes:
        joints: the fingers' joints, which share the opening equally; bodies of the same names carry them.
        max_opening_m: at the fingers' upper limits.
        stiffness: of each finger's servo, N (or Nm) per unit of its joint.
        lever_m: m that a pad moves per unit of its joint: 1 for a slide, the length of the jaw for a hinge.
        fixed_m: m from the pad that stands still to the tool, where only one pad moves; else None.
    """

    joints: tuple[str, ...]
    max_opening_m: float
    stiffness: float
    lever_m: float = 1.0
    fixed_m: float | None = None

    @property
    def share(self) -> float:
        """Joint units of each finger per m of opening."""
        return 1.0 / (len(self.joints) * self.lever_m)

    def middle(self, opening: Float64) -> Float64:
        """Where the middle between the pads is on the tool's y axis, (...) m, at `opening` (...) m."""
        return np.zeros_like(opening) if self.fixed_m is None else 0.5 * opening - self.fixed_m


@dataclass(frozen=True)
class Arm:
    """A serial arm of hinges about the z axes of its links, with a gripper.

    Attributes:
        prefix: of the names of its elements where a robot has several arms, such as "left_"; "" for a single arm.
        joints: from base to tip; `links` are the frames that they move.
        low, high: joint limits, rad. `max_velocity`: rad/s. `home`: rad, the posture to start near.
        spread: how far the joints start from `home`, rad.
        opening: m, least and largest opening at the start.
        tool: the frame between the finger pads: z along the approach direction, y along the finger motion.
    """

    prefix: str
    joints: tuple[str, ...]
    links: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    max_velocity: tuple[float, ...]
    home: tuple[float, ...]
    spread: tuple[float, ...]
    opening: tuple[float, float]
    tool: str
    gripper: Gripper

    @property
    def size(self) -> int:
        """Actions of this arm: its joints and the opening."""
        return len(self.joints) + 1


@dataclass(frozen=True)
class Workspace:
    """Where tasks put things.

    Attributes:
        objects, goals: areas in which objects start and goals stand; the open gripper fits between them everywhere.
        reach: an object outside of it can't be fetched.
    """

    objects: Area
    goals: Area
    reach: Area


@dataclass(frozen=True)
class Robot:
    """One robot on its table.

    Attributes:
        name: as in configurations.
        control_hz: control ticks a second; `timestep_s` of the physics divides a tick.
        arms: in the order of their actions. They come first in the model, each with its joints, then its fingers.
        bodies, actuators: MJCF. Actuators are called as the joints they drive and come in the same order.
        camera: MJCF attributes of the camera "front".
        table: half extents and centre of the table's top in the plane, m: half x, half y, x, y.
        scale: how large the things are that the gripper handles, and how high the arm lifts them; the Panda's are 1.
    """

    name: str
    control_hz: float
    timestep_s: float
    arms: tuple[Arm, ...]
    workspace: Workspace
    bodies: str
    actuators: str
    camera: str
    table: tuple[float, float, float, float]
    scale: float = 1.0

    @property
    def substeps(self) -> int:
        """Physics steps in a control tick."""
        return round(1.0 / (self.control_hz * self.timestep_s))

    @property
    def period_s(self) -> float:
        """Length of a control tick."""
        return 1.0 / self.control_hz

    @cached_property
    def action(self) -> ArraySpec:
        """Of every arm, absolute joint targets (rad) and the distance between the finger pads (m)."""
        arms = self.arms
        return ArraySpec(
            name="action",
            elements=tuple(e for a in arms for e in (*a.joints, f"{a.prefix}gripper")),
            units=tuple(u for a in arms for u in ("rad",) * len(a.joints) + ("m",)),
            low=tuple(v for a in arms for v in (*a.low, 0.0)),
            high=tuple(v for a in arms for v in (*a.high, a.gripper.max_opening_m)),
        )

    def columns(self, arm: Arm) -> slice:
        """Where the actions of `arm` are in an action."""
        start = sum(a.size for a in self.arms[: self.arms.index(arm)])
        return slice(start, start + arm.size)

    @cached_property
    def is_joint(self) -> NDArray[np.bool_]:
        """Which actions are joint targets (A,); the others are openings of grippers."""
        return np.array([part for arm in self.arms for part in (*(True,) * len(arm.joints), False)])

    @cached_property
    def _drive(self) -> tuple[NDArray[np.intp], Float64]:
        """Which action moves each actuator, (U,), and by how much, (U,)."""
        source, scale = [], []
        for arm in self.arms:
            first, fingers = self.columns(arm).start, len(arm.gripper.joints)
            joints = len(arm.joints)
            source += [*range(first, first + joints), *[first + joints] * fingers]
            scale += [*[1.0] * joints, *[arm.gripper.share] * fingers]
        return np.array(source), np.array(scale)

    def controls(self, actions: Float32) -> Float64:
        """Actuator targets (..., U) of `actions` (..., A): the fingers share the opening."""
        source, scale = self._drive
        return actions.astype(np.float64)[..., source] * scale

    def actions_of(self, targets: Float64) -> Float32:
        """The actions (..., A) that `controls` turns into these actuator targets (..., U)."""
        parts: list[Float64] = []
        start = 0
        for arm in self.arms:
            joints, fingers = len(arm.joints), len(arm.gripper.joints)
            parts.append(targets[..., start : start + joints])
            start += joints
            opening = targets[..., start : start + fingers].sum(-1, keepdims=True) * arm.gripper.lever_m
            parts.append(opening)
            start += fingers
        return np.concatenate(parts, axis=-1).astype(np.float32)

    @cached_property
    def longest_step(self) -> Float32:
        """How far each action may move in a tick, (A,); the fingers are limited by their servos alone."""
        steps = [np.append(np.array(a.max_velocity) * self.period_s, a.gripper.max_opening_m) for a in self.arms]
        return np.concatenate(steps).astype(np.float32)

    def limit_rate(self, actions: Float32, previous: Float32) -> Float32:
        """Keep the joint targets of `actions` (n, K, A) within the velocity limits.

        Args:
            actions: targets of K control ticks, within the bounds of `action`.
            previous: (n, A) the targets in force before the first tick.

        Returns:
            (n, K, A) float32: no joint target moves by more than its velocity limit allows in a tick.
        """
        limit, limited = self.longest_step, np.empty_like(actions)
        for k in range(actions.shape[1]):
            nearest = np.maximum(actions[:, k], previous - limit)
            previous = np.minimum(nearest, previous + limit, out=limited[:, k])
        return limited


def names(stem: str, numbers: Sequence[int]) -> tuple[str, ...]:
    """`stem` + number, for every number."""
    return tuple(f"{stem}{n}" for n in numbers)


@dataclass(frozen=True)
class Link:
    """A link of an arm and the joint that moves it, about the z axis.

    `position` and `quaternion` in the previous link as in MJCF; `mass` in kg, shared by the `shapes`: type, radius (and
    length), from-to, colour, as in MJCF; `joint` are attributes of the joint besides its name and axis.
    """

    position: str
    quaternion: str
    mass: float
    shapes: tuple[tuple[str, str, str, str], ...]
    joint: str


def chain_xml(arm: Arm, links: Sequence[Link], hand: str) -> str:
    """MJCF of the arm: one link in the other, and in the last one what `hand` says."""
    xml = ""
    for name, joint, link in zip(arm.links, arm.joints, links, strict=True):
        xml += f"""
    <body name="{name}" pos="{link.position}" quat="{link.quaternion}" gravcomp="1">
      <joint name="{joint}" axis="0 0 1" {link.joint}/>"""
        for k, (kind, radius, line, rgba) in enumerate(link.shapes):
            xml += f"""
      <geom name="{name}_{k}" class="shape" type="{kind}" size="{radius}" fromto="{line}"
            mass="{link.mass / len(link.shapes)}" rgba="{rgba}"/>"""
    return xml + hand + "</body>" * len(links)


def wrist_camera(prefix: str, out_m: float, back_m: float, tilt_rad: float) -> str:
    """MJCF of the camera `prefix` + "wrist", for the tool's body: it moves with the hand and looks along the approach.

    It is mounted `out_m` from the tool on its x axis and `back_m` behind it, and leans `tilt_rad` towards it: the pads
    of the fingers are in the lower half of the picture, and above them is what the tool moves to.
    """
    return f"""
      <camera name="{prefix}wrist" pos="{out_m} 0 {-back_m}" fovy="{_WRIST_FOV_DEG}"
              xyaxes="0 1 0 {np.cos(tilt_rad)} 0 {np.sin(tilt_rad)}"/>"""
