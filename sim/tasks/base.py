"""What a task tells the environment, and the geometry that tasks share."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import mujoco
import numpy as np
from numpy.typing import NDArray

from robotrl import kinematics
from robotrl.kinematics import ForwardKinematics
from robotrl.specs import ArraySpec, SceneSpec
from robotrl.types import Bool, Float32, Float64
from sim import scene
from sim.robots import panda

FAILURES = ("", "tipped", "out_of_reach")
"""What `Measurement.failure` indexes; 0 is none."""

# Of the table: where objects start, and where they can be fetched from (x low, x high, y low, y high) m.
_OBJECT_AREA = (0.41, 0.59, -0.24, 0.06)
_GOAL_AREA = (0.44, 0.56, 0.19, 0.27)
_REACH_AREA = (0.30, 0.72, -0.36, 0.36)
# How far the joints start from `panda.HOME`, rad.
_START_SPREAD = np.array([0.15, 0.08, 0.08, 0.08, 0.08, 0.08, 0.1])
_QUARTER = 0.5 * np.pi


@dataclass(frozen=True)
class Block:
    """Some named elements of a vector: `values` (..., k) and what the spec says of them.

    An element is called `name.part`, or `name` when there are no `parts`. `low` and `high` bound every element.
    """

    name: str
    parts: tuple[str, ...]
    unit: str
    low: float
    high: float
    values: Float64


def array_spec(name: str, blocks: Sequence[Block]) -> ArraySpec:
    """The spec of the vector that `blocks` make up."""
    elements = [(f"{b.name}.{p}" if p else b.name, b) for b in blocks for p in (b.parts or ("",))]
    return ArraySpec(
        name=name,
        elements=tuple(e for e, _ in elements),
        units=tuple(b.unit for _, b in elements),
        low=tuple(b.low for _, b in elements),
        high=tuple(b.high for _, b in elements),
    )


def stack(blocks: Sequence[Block]) -> Float32:
    """The values of `blocks` side by side, (..., size) float32."""
    return np.concatenate([b.values for b in blocks], axis=-1).astype(np.float32)


@dataclass(frozen=True)
class Measurement:
    """What a task reads from physics states (..., X); all arrays share the leading axes.

    `state` and `privileged` make up the two observation vectors; `reward` (...) in [0, 1]; `success` (...) bool;
    `failure` (...) uint8 index into `FAILURES`.
    """

    state: tuple[Block, ...]
    privileged: tuple[Block, ...]
    reward: Float64
    success: Bool
    failure: NDArray[np.uint8]


@dataclass(frozen=True)
class Pose:
    """Frames: `position` (..., 3) m and `rotation` (..., 3, 3), whose columns are the axes, in the world."""

    position: Float64
    rotation: Float64

    def above(self, height: float) -> Float64:
        """World coordinates (..., 3) of the point at `height` m on the frame's z axis."""
        return self.position + height * self.axis(2)

    def local(self, vector: Float64) -> Float64:
        """Coordinates (..., 3) in the frame of a world direction or difference."""
        rows = self.rotation
        return (
            rows[..., 0, :] * vector[..., 0:1] + rows[..., 1, :] * vector[..., 1:2] + rows[..., 2, :] * vector[..., 2:3]
        )

    def axis(self, index: int) -> Float64:
        """World direction (..., 3) of the frame's x, y or z axis."""
        return self.rotation[..., index]


def square_yaw(reference: Pose, target: Pose) -> Float64:
    """Turn (..., 1) rad about the reference's z axis that lines a square target up with it, in [-45°, 45°).

    Uses whichever of the target's x and y axes lies flatter, so that a cube may rest on any face.
    """
    x, y = reference.local(target.axis(0)), reference.local(target.axis(1))
    side = np.where(np.abs(x[..., 2:3]) < np.abs(y[..., 2:3]) + 0.1, x, y)
    yaw = np.arctan2(side[..., 1:2], side[..., 0:1])
    return yaw - _QUARTER * np.floor(yaw / _QUARTER + 0.5)


def lost(target: Pose) -> Bool:
    """Whether an object (...) left the area from which the arm can fetch it."""
    x_low, x_high, y_low, y_high = _REACH_AREA
    x, y, z = (target.position[..., i] for i in range(3))
    return (x < x_low) | (x > x_high) | (y < y_low) | (y > y_high) | (z < -0.02)


def random_places(rng: np.random.Generator) -> NDArray[np.float64]:
    """Where the object and its goal stand, (2, 2) x and y in m; the open gripper fits between them everywhere."""
    areas = np.array([_OBJECT_AREA, _GOAL_AREA])
    return rng.uniform(areas[:, 0::2], areas[:, 1::2])


def box_xml(
    name: str, kind: str, size: tuple[float, ...], position: tuple[float, ...], rgba: str, mass: float | None = None
) -> str:
    """MJCF of a box geom of class `kind`: half extents and position in m, mass in kg unless the body has its own."""
    weight = "" if mass is None else f' mass="{mass}"'
    numbers = [" ".join(f"{v:.6g}" for v in vector) for vector in (size, position)]
    return f'''
      <geom name="{name}" class="{kind}" type="box" size="{numbers[0]}" pos="{numbers[1]}" rgba="{rgba}"{weight}/>'''


@dataclass(frozen=True)
class View:
    """Named access to the physics states (..., X) of one compiled scene."""

    scene: SceneSpec
    size: int
    joints: slice
    fingers: slice
    velocities: slice
    joint_targets: slice
    finger_targets: slice
    _chains: dict[tuple[str, ...], ForwardKinematics] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, model: mujoco.MjModel) -> "View":
        """The view of `model`, whose first nine degrees of freedom are the arm's joints and fingers."""
        velocity, control = 1 + model.nq, scene.control_slice(model).start
        return cls(
            scene=scene.scene_spec(model),
            size=scene.physics_size(model),
            joints=slice(1, 8),
            fingers=slice(8, 10),
            velocities=slice(velocity, velocity + model.nv),
            joint_targets=slice(control, control + 7),
            finger_targets=slice(control + 7, control + 9),
        )

    def poses(self, physics: Float64, *names: str) -> list[Pose]:
        """Poses of the named frames."""
        if names not in self._chains:
            self._chains[names] = ForwardKinematics(self.scene, [self.scene.frame(n) for n in names])
        transforms = self._chains[names](physics)
        return [Pose(transforms[..., i, :3, 3], transforms[..., i, :3, :3]) for i in range(len(names))]

    def opening(self, physics: Float64) -> Float64:
        """Distance (...) m between the finger pads."""
        return physics[..., self.fingers.start] + physics[..., self.fingers.start + 1]

    def robot_blocks(self, physics: Float64, tool: Pose) -> tuple[Block, ...]:
        """Proprioception: joints, opening, tool position, and the tool's x and z axes (six numbers, no wrap-around)."""
        axes = np.concatenate([tool.axis(0), tool.axis(2)], axis=-1)
        joints = (
            Block(name, (), "rad", low, high, physics[..., i : i + 1])
            for i, (name, low, high) in enumerate(
                zip(panda.JOINTS, panda.LOW, panda.HIGH, strict=True), self.joints.start
            )
        )
        return (
            *joints,
            Block("gripper", (), "m", 0.0, panda.MAX_OPENING, self.opening(physics)[..., None]),
            Block("tool", ("x", "y", "z"), "m", -1.0, 1.0, tool.position),
            Block("tool", ("xx", "xy", "xz", "zx", "zy", "zz"), "1", -1.0, 1.0, axes),
        )

    def privileged_blocks(self, physics: Float64, checkpoints: dict[str, Bool]) -> tuple[Block, ...]:
        """Exact velocities, grip force, and the `checkpoints` (...) reached, as 0 or 1."""
        velocity = physics[..., self.velocities]
        lag = physics[..., self.fingers] - physics[..., self.finger_targets]
        force = 0.5 * panda.FINGER_STIFFNESS * (lag[..., 0:1] + lag[..., 1:2])
        flags = np.stack([c.astype(np.float64) for c in checkpoints.values()], axis=-1)
        return (
            Block("velocity", panda.JOINTS, "rad/s", -10.0, 10.0, velocity[..., :7]),
            Block("object.velocity", ("x", "y", "z"), "m/s", -10.0, 10.0, velocity[..., 9:12]),
            Block("object.turn", ("x", "y", "z"), "rad/s", -100.0, 100.0, velocity[..., 12:15]),
            Block("grip_force", (), "N", -100.0, 100.0, force),
            Block("checkpoint", tuple(checkpoints), "1", 0.0, 1.0, flags),
        )

    def blank(self, joints: Float64, opening: float) -> Float64:
        """A physics state (X,) at time 0 with the arm at rest at `joints` (7,) and its servos holding it there."""
        physics = np.zeros(self.size)
        physics[self.joints] = physics[self.joint_targets] = joints
        physics[self.fingers] = physics[self.finger_targets] = 0.5 * opening
        return physics

    def random_arm(self, rng: np.random.Generator) -> Float64:
        """A physics state (X,) with the arm somewhere above the table, at rest and half open."""
        joints = panda.HOME + rng.uniform(-1.0, 1.0, 7) * _START_SPREAD
        # The servo targets are actions, which are float32.
        return self.blank(joints.astype(np.float32).astype(np.float64), float(np.float32(rng.uniform(0.05, 0.075))))

    def place(self, physics: Float64, frame: str, position: Sequence[float], yaw: float) -> None:
        """Put a free or mocap frame at `position` m, upright and turned by `yaw` rad; changes `physics` (X,)."""
        address = self.scene.frames[self.scene.frame(frame)].address
        physics[address : address + 3] = position
        physics[address + 3 : address + 7] = kinematics.quaternion_from_yaw(np.array(yaw))


class Task(ABC):
    """One task on the arm's table. Subclasses are frozen dataclasses whose fields are the task's parameters."""

    name: ClassVar[str]
    instructions: ClassVar[tuple[str, ...]]
    horizon: int

    @abstractmethod
    def objects(self) -> str:
        """MJCF bodies that go into the world besides the arm and the table."""

    @abstractmethod
    def draw(self, view: View, rng: np.random.Generator) -> Float64:
        """One candidate start, (X,) physics state, that depends on nothing but `rng`."""

    @abstractmethod
    def measure(self, view: View, physics: Float64) -> Measurement:
        """Observation, reward, success and failure of physics states (..., X), from the states alone."""
