"""What an environment promises: named, bounded, unit-carrying arrays, and a scene to draw them in.

Axis letters, here and everywhere: N worlds, K control ticks, A action elements, S state elements,
H chunk length, L history, T episode length, B batch, F frames of the scene.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import cattrs
import numpy as np
from cattrs.gen import make_dict_unstructure_fn, override
from numpy.typing import NDArray

from robotrl.errors import ConfigurationError, DataError, unknown_name

Shape = Literal["box", "capsule", "cylinder", "sphere", "plane"]
JointKind = Literal["hinge", "slide", "free", "mocap"]


@dataclass(frozen=True)
class ArraySpec:
    """One vector of the interface, element by element.

    Attributes:
        name: what the vector is called in errors ("action", "state").
        elements: a unique name for every element, in order.
        units: SI unit of every element ("rad", "m", "rad/s", "1" for unitless).
        low, high: inclusive bounds of every element, in those units.
    """

    name: str
    elements: tuple[str, ...]
    units: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.elements), len(self.units), len(self.low), len(self.high)}
        if len(lengths) != 1:
            raise ValueError(f"spec '{self.name}': elements, units, low and high differ in length: {sorted(lengths)}")
        if len(set(self.elements)) != len(self.elements):
            raise ValueError(f"spec '{self.name}': element names repeat: {self.elements}")

    @property
    def size(self) -> int:
        """Number of elements of the vector."""
        return len(self.elements)

    def slice(self, prefix: str) -> slice:
        """Contiguous elements whose name is `prefix` or starts with `prefix.`."""
        found = [i for i, e in enumerate(self.elements) if e == prefix or e.startswith(prefix + ".")]
        if not found or found[-1] - found[0] + 1 != len(found):
            raise KeyError(f"spec '{self.name}' has no contiguous block '{prefix}'; elements: {self.elements}")
        return slice(found[0], found[-1] + 1)

    def select(self, elements: Sequence[str]) -> "ArraySpec":
        """The spec of these `elements` alone, in this order."""
        unknown = [e for e in elements if e not in self.elements]
        if unknown:
            raise unknown_name(f"element of '{self.name}'", unknown[0], self.elements)
        index = [self.elements.index(e) for e in elements]
        return ArraySpec(
            name=self.name,
            elements=tuple(elements),
            units=tuple(self.units[i] for i in index),
            low=tuple(self.low[i] for i in index),
            high=tuple(self.high[i] for i in index),
        )

    def clip(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """`values` (..., size) brought inside the bounds, float32."""
        return np.clip(values, self.low, self.high).astype(np.float32)

    def require(self, values: NDArray[np.floating]) -> None:
        """Raise `DataError` unless `values` (..., size) has this size and is finite."""
        if values.shape[-1:] != (self.size,):
            raise DataError(f"{self.name}: expected {self.size} elements {self.elements}, got shape {values.shape}")
        if not np.isfinite(values).all():
            bad = self.elements[int(np.argwhere(~np.isfinite(values))[0][-1])]
            raise DataError(f"{self.name}: element '{bad}' is not finite")


@dataclass(frozen=True)
class CameraSpec:
    """A camera: its name, image size in pixels, and visual profile, which says how much of the looks is drawn."""

    name: str
    height: int
    width: int
    profile: str = "full"

    def __str__(self) -> str:
        return f"'{self.name}' of {self.height} x {self.width} pixels, {self.profile}"


_GIVE_CAMERAS = "choose the task's cameras (cameras=NAME, task.environment.cameras=[...]), or another policy"


def _no_camera(wanted: str, there: Sequence[CameraSpec]) -> str:
    return f"expected a camera {wanted}, the environment has {', '.join(map(str, there)) or 'none'}"


@dataclass(frozen=True)
class Frame:
    """A rigid frame of the scene tree.

    Attributes:
        parent: index of the parent frame, -1 for the world. Parents come before children.
        position: (3,) m and `quaternion` (4,) wxyz: pose in the parent at zero joint value.
        joint: how the frame moves in its parent, or None when it is rigid.
        axis: (3,) joint axis in the frame itself, for hinge and slide.
        address: first index of the joint's values in the physics state vector:
            one value for hinge (rad) and slide (m), seven (position m, quaternion wxyz) for free and mocap.
    """

    name: str
    parent: int
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    joint: JointKind | None = None
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    address: int = -1


@dataclass(frozen=True)
class Primitive:
    """A shape fixed to a frame, enough to draw the scene without a simulator.

    `size` (3,) m: half extents of a box, (radius, half length, 0) of a capsule or cylinder along its z axis,
    (radius, 0, 0) of a sphere, half extents of a plane. `position` m and `quaternion` wxyz are in the frame.
    """

    name: str
    frame: int
    shape: Shape
    size: tuple[float, float, float]
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]
    rgba: tuple[float, float, float, float]


@dataclass(frozen=True)
class SceneSpec:
    """The scene as a tree of frames and the primitives on them; `robotrl.kinematics` poses it."""

    frames: tuple[Frame, ...]
    primitives: tuple[Primitive, ...]

    def frame(self, name: str) -> int:
        """Index of the frame called `name`."""
        for index, frame in enumerate(self.frames):
            if frame.name == name:
                return index
        raise KeyError(f"the scene has no frame '{name}'; frames: {[f.name for f in self.frames]}")


@dataclass(frozen=True)
class Capabilities:
    """What an environment can do beyond stepping."""

    snapshot: bool
    batched: bool
    faster_than_real_time: bool


@dataclass(frozen=True)
class EnvironmentSpec:
    """One task on one robot.

    Attributes:
        task, robot: names, as in `configs/`.
        state: proprioception and object poses that a policy may use.
        privileged: contacts, masses, exact velocities, phases; never seen by a deployed policy.
        action: targets for one control tick.
        physics_size: length of the physics state vector of one world (float64).
        control_hz: control ticks a second.
        horizon: longest episode, in ticks.
        settle_ticks: consecutive successful ticks after which an episode ends.
        instructions: what the task may be called in words.
        tool_frame: scene frame of the tool centre point, or "" where the scene is not known (then it has no frames).
        momentary: action elements that act only while they are given, such as a step of the hand or a torque; 0 holds
            still. The others are targets, which last.
    """

    task: str
    robot: str
    state: ArraySpec
    privileged: ArraySpec
    action: ArraySpec
    physics_size: int
    control_hz: float
    horizon: int
    settle_ticks: int
    instructions: tuple[str, ...]
    tool_frame: str
    scene: SceneSpec
    capabilities: Capabilities
    cameras: tuple[CameraSpec, ...] = ()
    momentary: tuple[str, ...] = ()

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Names of the task's sub-goals, which `checkpoint.*` in the privileged vector are 1 for while they hold."""
        return tuple(e.partition(".")[2] for e in self.privileged.elements if e.startswith("checkpoint."))

    @property
    def proprioception(self) -> tuple[str, ...]:
        """Elements of the state that the robot measures on itself: what it commands, and the poses of its tools.

        A tool's block is called as its frame, perhaps with an arm's name in front: "tool", "left_tool".
        """
        tool = self.tool_frame.rpartition("_")[2]
        blocks = {e: e.partition(".")[0] for e in self.state.elements}
        tools = {b for b in blocks.values() if b.rpartition("_")[2] == tool and "_to_" not in b}
        return tuple(e for e, block in blocks.items() if e in self.action.elements or block in tools)

    def cameras_called(self, names: Sequence[str]) -> tuple[CameraSpec, ...]:
        """The cameras of these names, in this order."""
        known = {camera.name: camera for camera in self.cameras}
        for name in names:
            if name not in known:
                raise ConfigurationError(f"{_no_camera(f"'{name}'", self.cameras)}; {_GIVE_CAMERAS}")
        return tuple(known[name] for name in names)

    def require_cameras(self, wanted: Sequence[CameraSpec], who: str) -> None:
        """Raise `ConfigurationError` unless there is every camera that `who` sees, of equal size and profile."""
        for camera in wanted:
            if camera not in self.cameras:
                raise ConfigurationError(f"{who}: {_no_camera(str(camera), self.cameras)}; {_GIVE_CAMERAS}")

    def to_json(self) -> str:
        """The spec as canonical JSON (sorted keys); `spec_from_json` reads it back."""
        plain = cattrs.structure(cattrs.unstructure(self), EnvironmentSpec)  # 1 and 1.0 must read the same
        return json.dumps(_CONVERTER.unstructure(plain), sort_keys=True)

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that change with anything in the spec."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]


_CONVERTER = cattrs.Converter()
# Specs from before there were profiles and momentary actions keep their JSON, hence their fingerprints and stores.
_CONVERTER.register_unstructure_hook(
    CameraSpec, make_dict_unstructure_fn(CameraSpec, _CONVERTER, profile=override(omit_if_default=True))
)
_CONVERTER.register_unstructure_hook(
    EnvironmentSpec, make_dict_unstructure_fn(EnvironmentSpec, _CONVERTER, momentary=override(omit_if_default=True))
)


def spec_from_json(text: str) -> EnvironmentSpec:
    """Read back what `EnvironmentSpec.to_json` wrote. Raises `DataError` when it is not one."""
    try:
        return cattrs.structure(json.loads(text), EnvironmentSpec)
    except (ValueError, cattrs.BaseValidationError) as error:
        raise DataError(f"not an environment spec: {error}") from error


def array_spec_from_json(raw: Mapping[str, Any]) -> ArraySpec:
    """An `ArraySpec` from the plain values that `dataclasses.asdict` and JSON made of it."""
    return cattrs.structure(raw, ArraySpec)
