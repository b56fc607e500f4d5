"""What a task tells the environment, and the geometry that tasks share."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import mujoco
import numpy as np
from numpy.typing import NDArray

from robotrl import kinematics
from robotrl.errors import ConfigurationError
from robotrl.kinematics import ForwardKinematics
from robotrl.specs import ArraySpec, SceneSpec
from robotrl.types import Bool, Float32, Float64, Int64
from sim import scene
from sim.robots import Arm, Robot
from sim.robots.base import Area

FAILURES = ("", "tipped", "out_of_reach", "dropped", "jammed")
"""What `Measurement.failure` indexes; 0 is none."""

FIRST = np.zeros((), np.int64)
"""The only instruction of a task that has one."""
_EASIEST = 0.1
_QUARTER = 0.5 * np.pi
_STEEP = np.sin(np.deg2rad(50.0))


@dataclass(frozen=True)
class Block:
    """Some named elements of a vector: `values` (..., k) and what the spec says of them.

    An element is called `name.part`, or `name` when there are no `parts`, or the part when there is no name. `low` and
    `high` bound every element, or each its own.
    """

    name: str
    parts: tuple[str, ...]
    unit: str
    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    values: Float64

    @property
    def elements(self) -> tuple[str, ...]:
        """Names of the elements."""
        return tuple(".".join(filter(None, (self.name, part))) for part in self.parts or ("",))


def array_spec(name: str, blocks: Sequence[Block]) -> ArraySpec:
    """The spec of the vector that `blocks` make up."""
    return ArraySpec(
        name=name,
        elements=tuple(e for b in blocks for e in b.elements),
        units=tuple(b.unit for b in blocks for _ in b.elements),
        low=tuple(v for b in blocks for v in _each(b.low, b)),
        high=tuple(v for b in blocks for v in _each(b.high, b)),
    )


def _each(bound: float | tuple[float, ...], block: Block) -> tuple[float, ...]:
    """The `bound` of every element of `block`."""
    return bound if isinstance(bound, tuple) else (bound,) * len(block.elements)


def stack(blocks: Sequence[Block]) -> Float32:
    """The values of `blocks` side by side, (..., size) float32."""
    values = [b.values for b in blocks]
    # The blocks differ in layout; without an array to write into, the result would too.
    out = np.empty((*values[0].shape[:-1], sum(v.shape[-1] for v in values)), np.float32)
    return np.concatenate(values, axis=-1, out=out, casting="same_kind")


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


def rod_heading(rod: Pose) -> Float64:
    """World direction (..., 3) of a rod's x axis, or of its opposite where that points more to the right.

    The two ends of a rod are alike; this says which of them is nearer to the arm at the positive x.
    """
    axis = rod.axis(0)
    return np.where(axis[..., 0:1] < 0.0, -axis, axis)


def rod_yaw(reference: Pose, heading: Float64) -> Float64:
    """Turn (..., 1) rad about the reference's z axis that lines its x axis up with a rod's, in [-90°, 90°).

    `heading` (..., 3) is the rod's world direction, either way.
    """
    way = reference.local(heading)
    yaw = np.arctan2(way[..., 1:2], way[..., 0:1])
    return yaw - np.pi * np.floor(yaw / np.pi + 0.5)


def on_end(heading: Float64) -> Bool:
    """Whether a rod (...) of this world direction (..., 3) stands so steeply that pads from above cannot hold it."""
    return np.abs(heading[..., 2]) > _STEEP


def lost(target: Pose, area: Area) -> Bool:
    """Whether an object (...) left the `area` from which the arm can fetch it."""
    x_low, x_high, y_low, y_high = area
    x, y, z = (target.position[..., i] for i in range(3))
    return (x < x_low) | (x > x_high) | (y < y_low) | (y > y_high) | (z < -0.02)


def place_in(areas: Sequence[Area], spread: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """A random place in each of the areas, (n, 2) x and y in m; `spread` 1 uses all of an area, 0 its centre."""
    # Plain numbers, as NumPy's broadcasting costs more than the draws.
    shrink = 0.5 * (1.0 - spread)

    def between(low: float, high: float) -> float:
        inward = shrink * (high - low)
        return rng.uniform(low + inward, high - inward)

    return np.array([(between(*area[:2]), between(*area[2:])) for area in areas])


def box_xml(
    name: str, kind: str, size: tuple[float, ...], position: tuple[float, ...], rgba: str, mass: float | None = None
) -> str:
    """MJCF of a box geom of class `kind`: half extents and position in m, mass in kg unless the body has its own."""
    weight = "" if mass is None else f' mass="{mass}"'
    numbers = [" ".join(f"{v:.6g}" for v in vector) for vector in (size, position)]
    return f'''
      <geom name="{name}" class="{kind}" type="box" size="{numbers[0]}" pos="{numbers[1]}" rgba="{rgba}"{weight}/>'''


@dataclass(frozen=True)
class Columns:
    """Where one arm is in a physics state."""

    joints: slice
    fingers: slice
    velocities: slice
    joint_targets: slice
    finger_targets: slice


@dataclass(frozen=True)
class View:
    """Named access to the physics states (..., X) of one compiled scene.

    `free` and `slides` say where the velocities of free bodies (six numbers, m/s and rad/s) and of objects on slides
    (one, m/s) begin.
    """

    robot: Robot
    scene: SceneSpec
    size: int
    columns: dict[str, Columns]
    free: dict[str, int]
    slides: dict[str, int]
    _chains: dict[tuple[str, ...], ForwardKinematics] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, model: mujoco.MjModel, robot: Robot) -> "View":
        """The view of `model`, which begins with the arms of `robot`: of each its joints, then its fingers."""
        _require_arms_first(model, robot)
        velocity, control = 1 + model.nq, scene.control_slice(model).start
        columns: dict[str, Columns] = {}
        first = 0
        for arm in robot.arms:
            middle, last = first + len(arm.joints), first + len(arm.joints) + len(arm.gripper.joints)
            columns[arm.prefix] = Columns(
                joints=slice(1 + first, 1 + middle),
                fingers=slice(1 + middle, 1 + last),
                velocities=slice(velocity + first, velocity + middle),
                joint_targets=slice(control + first, control + middle),
                finger_targets=slice(control + middle, control + last),
            )
            first = last
        bodies = [model.body(i) for i in range(model.nbody)]
        free = {b.name: velocity + int(b.dofadr[0]) for b in bodies if b.dofnum[0] == 6}
        # The arms' joints come first.
        slides = {b.name: velocity + int(b.dofadr[0]) for b in bodies if b.dofnum[0] == 1 and b.dofadr[0] >= first}
        return cls(robot, scene.scene_spec(model), scene.physics_size(model), columns, free, slides)

    @property
    def arm(self) -> Arm:
        """The first arm, which is the only one of most robots."""
        return self.robot.arms[0]

    def poses(self, physics: Float64, *names: str) -> list[Pose]:
        """Poses of the named frames."""
        if names not in self._chains:
            self._chains[names] = ForwardKinematics(self.scene, [self.scene.frame(n) for n in names])
        transforms, lead = self._chains[names](physics)[..., :3, :], physics.ndim - 1
        # With the batch innermost in memory, whatever is computed from the poses runs in long loops.
        transforms = transforms.transpose(lead, lead + 1, lead + 2, *range(lead)).copy()
        transforms = transforms.transpose(*range(3, 3 + lead), 0, 1, 2)
        return [Pose(transforms[..., i, :, 3], transforms[..., i, :, :3]) for i in range(len(names))]

    def opening(self, physics: Float64, arm: Arm | None = None) -> Float64:
        """Distance (...) m between the finger pads of `arm`, of the first one when None."""
        arm = arm or self.arm
        return physics[..., self.columns[arm.prefix].fingers].sum(-1) * arm.gripper.lever_m

    def robot_blocks(self, physics: Float64, *tools: Pose) -> tuple[Block, ...]:
        """Proprioception: of every arm, whose tools are `tools`, joints, opening, tool position, and the tool's x and
        z axes (six numbers, no wrap-around)."""
        blocks: list[Block] = []
        for arm, tool in zip(self.robot.arms, tools, strict=True):
            axes = np.concatenate([tool.axis(0), tool.axis(2)], axis=-1)
            joints = physics[..., self.columns[arm.prefix].joints]
            name, widest = f"{arm.prefix}tool", arm.gripper.max_opening_m
            blocks += [
                Block("", arm.joints, "rad", arm.low, arm.high, joints),
                Block(f"{arm.prefix}gripper", (), "m", 0.0, widest, self.opening(physics, arm)[..., None]),
                Block(name, ("x", "y", "z"), "m", -1.0, 1.0, tool.position),
                Block(name, ("xx", "xy", "xz", "zx", "zy", "zz"), "1", -1.0, 1.0, axes),
            ]
        return tuple(blocks)

    def privileged_blocks(self, physics: Float64, checkpoints: dict[str, Bool]) -> tuple[Block, ...]:
        """Exact velocities, grip forces, and the `checkpoints` (...) reached, as 0 or 1."""
        blocks: list[Block] = []
        for arm in self.robot.arms:
            velocity = physics[..., self.columns[arm.prefix].velocities]
            blocks.append(Block("velocity", arm.joints, "rad/s", -10.0, 10.0, velocity))
        for name, start in self.free.items():
            name = "object" if len(self.free) == 1 else name
            linear, angular = physics[..., start : start + 3], physics[..., start + 3 : start + 6]
            blocks.append(Block(f"{name}.velocity", ("x", "y", "z"), "m/s", -10.0, 10.0, linear))
            blocks.append(Block(f"{name}.turn", ("x", "y", "z"), "rad/s", -100.0, 100.0, angular))
        for arm in self.robot.arms:
            place, gripper = self.columns[arm.prefix], arm.gripper
            lag = physics[..., place.fingers] - physics[..., place.finger_targets]
            # A servo pushes by stiffness times lag; a pad by that over its lever.
            force = gripper.stiffness / len(gripper.joints) / gripper.lever_m * lag.sum(-1, keepdims=True)
            blocks.append(Block(f"{arm.prefix}grip_force", (), "N", -100.0, 100.0, force))
        flags = np.stack(list(checkpoints.values()), axis=-1).astype(np.float64)
        blocks.append(Block("checkpoint", tuple(checkpoints), "1", 0.0, 1.0, flags))
        return tuple(blocks)

    def at_rest(self, postures: Mapping[str, tuple[Float64, float]] | None = None) -> Float64:
        """A physics state (X,) at time 0 with every arm at rest and its servos holding it there.

        Args:
            postures: an arm's prefix → its joints (J,) rad and opening m; all arms are at their homes when None.
        """
        physics = np.zeros(self.size)
        for arm in self.robot.arms:
            joints, opening = (arm.home, arm.opening[0]) if postures is None else postures[arm.prefix]
            place = self.columns[arm.prefix]
            physics[place.joints] = physics[place.joint_targets] = joints
            physics[place.fingers] = physics[place.finger_targets] = arm.gripper.share * opening
        for frame in self.scene.frames:
            if frame.joint in ("free", "mocap"):
                physics[frame.address : frame.address + 7] = *frame.position, *frame.quaternion
        return physics

    def random_arms(self, rng: np.random.Generator, spread: float = 1.0) -> Float64:
        """A physics state (X,) with every arm somewhere near its home, at rest and half open."""
        postures: dict[str, tuple[Float64, float]] = {}
        for arm in self.robot.arms:
            joints = np.array(arm.home) + rng.uniform(-1.0, 1.0, len(arm.joints)) * (spread * np.array(arm.spread))
            # The servo targets are actions, which are float32.
            opening = float(np.float32(rng.uniform(*arm.opening)))
            postures[arm.prefix] = joints.astype(np.float32).astype(np.float64), opening
        return self.at_rest(postures)

    def place(self, physics: Float64, frame: str, position: Sequence[float], yaw: float) -> None:
        """Put a free or mocap frame at `position` m, upright and turned by `yaw` rad; changes `physics` (X,)."""
        address = self.scene.frames[self.scene.frame(frame)].address
        physics[address : address + 3] = position
        physics[address + 3 : address + 7] = kinematics.quaternion_from_yaw(np.array(yaw))


def _require_arms_first(model: mujoco.MjModel, robot: Robot) -> None:
    """Refuse a model in which the arms' joints and actuators are not the first, in the order of the robot."""
    expected = [name for arm in robot.arms for name in (*arm.joints, *arm.gripper.joints)]
    joints = [model.joint(i).name for i in range(model.njnt)][: len(expected)]
    actuators = [model.actuator(i).name for i in range(model.nu)]
    for kind, found in (("joints", joints), ("actuators", actuators)):
        if found != expected:
            raise ConfigurationError(
                f"robot '{robot.name}': expected its model to begin with the {kind} {expected}, each arm's joints and "
                f"then its fingers, got {found}; reorder the bodies and actuators in sim/robots"
            )


@dataclass(frozen=True)
class Task(ABC):
    """One task on a robot's table. Subclasses are frozen dataclasses whose fields are the task's parameters.

    Attributes:
        time_limit_s: longest episode.
        difficulty: in [0, 1], how widely starts are spread; 1 is the task as it is meant.
    """

    time_limit_s: float = 15.0
    difficulty: float = 1.0

    name: ClassVar[str]
    robots: ClassVar[tuple[str, ...]] = ("panda",)
    instructions: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        if not self.time_limit_s > 0:
            raise ConfigurationError(f"{self.name}.time_limit_s: expected more than 0 s, got {self.time_limit_s}")
        if not 0 <= self.difficulty <= 1:
            raise ConfigurationError(f"{self.name}.difficulty: expected 0 to 1, got {self.difficulty}")

    @property
    def spread(self) -> float:
        """Share of the areas and angles that starts use."""
        return _EASIEST + (1.0 - _EASIEST) * self.difficulty

    def choose(self, rng: np.random.Generator) -> int:
        """Index of the instruction of an episode."""
        return 0

    @abstractmethod
    def objects(self, robot: Robot) -> str:
        """MJCF bodies that go into the world besides the robot and the table."""

    @abstractmethod
    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """One candidate start, (X,) physics state, that depends on nothing but `rng` and the instruction."""

    @abstractmethod
    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """Observation, reward, success and failure of physics states (..., X), from the states alone.

        `instruction` is an index that broadcasts with the leading axes.
        """
