"""Domain randomisation: worlds that differ in mass, friction, looks, camera and actuation, by their seeds alone.

A world's values are drawn from its seed when it is reset, go with it as the privileged block `random`, and are
written into a copy of the model that this world alone is stepped and drawn with.
"""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from robotrl import kinematics
from robotrl import seeds as seed_streams
from robotrl.errors import ConfigurationError
from robotrl.specs import ArraySpec
from robotrl.types import Float32, Float64, Int64
from sim.tasks.base import Block


@dataclass(frozen=True)
class Randomisation:
    """How widely worlds differ; 0 leaves a thing as it is. Starts are spread by a task's `difficulty`.

    Attributes:
        mass: each object's mass and inertia are multiplied or divided by up to 1 + this.
        friction: so is the sliding friction of each object, of the finger pads and of the table.
        colour: how far each colour channel, in [0, 1], of every object and of the table shifts.
        light: the lights' strength is multiplied or divided by up to 1 + this.
        camera_m, camera_rad: how far a camera moves along, and turns about, each axis.
        action_noise_rad: standard deviation of each executed joint target, drawn anew at every tick.
        action_delay_ticks: most ticks by which actions arrive late; a world keeps its delay.
    """

    mass: float = 0.0
    friction: float = 0.0
    colour: float = 0.0
    light: float = 0.0
    camera_m: float = 0.0
    camera_rad: float = 0.0
    action_noise_rad: float = 0.0
    action_delay_ticks: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < np.inf:
                raise ConfigurationError(f"randomisation.{name}={value}: expected 0 or more")


@dataclass(frozen=True)
class _Knob:
    """One group of values: `parts` of it, drawn evenly from [low, high] (of the logarithm, for a factor).

    `write` puts values (k,) into a model, as absolute numbers, so that it may be done again and again.
    """

    name: str
    parts: tuple[str, ...]
    unit: str
    low: float
    high: float
    write: Callable[[mujoco.MjModel, Float64], None]

    def draw(self, rng: np.random.Generator) -> Float64:
        """Values (k,)."""
        if self.unit == "1" and self.low > 0:
            return np.exp(rng.uniform(np.log(self.low), np.log(self.high), len(self.parts)))
        return rng.uniform(self.low, self.high, len(self.parts))


def _factor(name: str, parts: Sequence[str], width: float, write: Callable[[mujoco.MjModel, Float64], None]) -> _Knob:
    return _Knob(name, tuple(parts), "1", 1.0 / (1.0 + width), 1.0 + width, write)


def _knobs(model: mujoco.MjModel, how: Randomisation) -> list[_Knob]:
    """What can differ between worlds of `model`; `model` keeps the values that factors and shifts start from."""
    bodies = [model.body(i) for i in range(model.nbody)]
    loose = [b for b in bodies if b.dofnum[0] == 6]
    geoms = [model.geom(i) for i in range(model.ngeom)]
    pads = [g.id for g in geoms if g.priority[0] > 0]
    of_body = {b.name: [g.id for g in geoms if g.bodyid[0] == b.id] for b in bodies}
    rubbing = {**{b.name: of_body[b.name] for b in loose}, "pads": pads, "table": [model.geom("table").id]}
    seen = {b.name: of_body[b.name] for b in bodies if b in loose or b.mocapid[0] >= 0}
    seen = {name: ids for name, ids in {**seen, "table": [model.geom("table").id]}.items() if ids}
    knobs: list[_Knob] = []
    if how.mass and loose:
        knobs.append(_factor("mass", [b.name for b in loose], how.mass, _mass_writer(model, [b.id for b in loose])))
    if how.friction:
        knobs.append(_factor("friction", list(rubbing), how.friction, _friction_writer(model, list(rubbing.values()))))
    if how.colour:
        parts = tuple(f"{name}_{channel}" for name in seen for channel in "rgb")
        knobs.append(_Knob("colour", parts, "1", -how.colour, how.colour, _colour_writer(model, list(seen.values()))))
    if how.light:
        knobs.append(_factor("light", ("strength",), how.light, _light_writer(model)))
    cameras = [model.camera(i).name for i in range(model.ncam)]
    for name, unit, width, write in (
        ("camera", "m", how.camera_m, _camera_mover(model)),
        ("camera_turn", "rad", how.camera_rad, _camera_turner(model)),
    ):
        if width:
            knobs.append(
                _Knob(name, tuple(f"{c}_{axis}" for c in cameras for axis in "xyz"), unit, -width, width, write)
            )
    return knobs


def _mass_writer(base: mujoco.MjModel, bodies: list[int]) -> Callable[[mujoco.MjModel, Float64], None]:
    mass, inertia, scratch = base.body_mass[bodies].copy(), base.body_inertia[bodies].copy(), mujoco.MjData(base)

    def write(model: mujoco.MjModel, values: Float64) -> None:
        model.body_mass[bodies], model.body_inertia[bodies] = mass * values, inertia * values[:, None]
        # What MuJoCo derives from masses follows.
        mujoco.mj_setConst(model, scratch)

    return write


def _friction_writer(base: mujoco.MjModel, groups: list[list[int]]) -> Callable[[mujoco.MjModel, Float64], None]:
    sliding = base.geom_friction[:, 0].copy()

    def write(model: mujoco.MjModel, values: Float64) -> None:
        for geoms, value in zip(groups, values, strict=True):
            model.geom_friction[geoms, 0] = sliding[geoms] * value

    return write


def _colour_writer(base: mujoco.MjModel, groups: list[list[int]]) -> Callable[[mujoco.MjModel, Float64], None]:
    colours = base.geom_rgba[:, :3].copy()

    def write(model: mujoco.MjModel, values: Float64) -> None:
        for geoms, shift in zip(groups, values.reshape(-1, 3), strict=True):
            model.geom_rgba[geoms, :3] = np.clip(colours[geoms] + shift, 0.0, 1.0)

    return write


def _light_writer(base: mujoco.MjModel) -> Callable[[mujoco.MjModel, Float64], None]:
    lights, head = base.light_diffuse.copy(), np.array(base.vis.headlight.diffuse)

    def write(model: mujoco.MjModel, values: Float64) -> None:
        model.light_diffuse[:] = np.clip(lights * values, 0.0, 1.0)
        model.vis.headlight.diffuse[:] = np.clip(head * values, 0.0, 1.0)

    return write


def _camera_mover(base: mujoco.MjModel) -> Callable[[mujoco.MjModel, Float64], None]:
    places = base.cam_pos.copy()

    def write(model: mujoco.MjModel, values: Float64) -> None:
        model.cam_pos[:] = places + values.reshape(-1, 3)

    return write


def _camera_turner(base: mujoco.MjModel) -> Callable[[mujoco.MjModel, Float64], None]:
    quaternions = base.cam_quat.copy()

    def write(model: mujoco.MjModel, values: Float64) -> None:
        turn = kinematics.quaternion_from_matrix(kinematics.matrix_from_rotation_vector(values.reshape(-1, 3)))
        model.cam_quat[:] = kinematics.quaternion_multiply(quaternions, turn)

    return write


class Variants:
    """The models of N worlds, and the values that make them differ.

    Args:
        model: what all are like where nothing is drawn.
        worlds: N.
        how: what is drawn; where nothing is, all worlds share `model`.
    """

    def __init__(self, model: mujoco.MjModel, worlds: int, how: Randomisation) -> None:
        self._base, self._knobs = model, _knobs(model, how)
        self._models = [copy.copy(model) for _ in range(worlds)] if self._knobs else []
        self._values = np.zeros((worlds, sum(len(k.parts) for k in self._knobs)))

    def begin(self, rows: Int64, seeds: Int64) -> None:
        """Draw the values of the worlds `rows` (n,) from `seeds` (n,)."""
        if not self._knobs:
            return
        for row, seed in zip(rows.tolist(), seeds.tolist(), strict=True):
            # A knob has a stream of its own: its draws stay when others come or go.
            drawn = [knob.draw(seed_streams.generator(seed, "randomisation", knob.name)) for knob in self._knobs]
            # As the store keeps them, so that pictures drawn from stored values are the same.
            values = np.concatenate(drawn).astype(np.float32).astype(np.float64)
            self.write(self._models[row], values)
            self._values[row] = values

    def write(self, model: mujoco.MjModel, values: Float64) -> None:
        """Make `model`, a copy of the one given at first, look and behave as `values` (R,) say."""
        start = 0
        for knob in self._knobs:
            knob.write(model, values[start : start + len(knob.parts)])
            start += len(knob.parts)

    def recorded(self, spec: ArraySpec, privileged: Float32) -> mujoco.MjModel:
        """The model of the world that recorded this `privileged` vector (P,) of `spec`."""
        if not self._knobs:
            return self._base
        model = copy.copy(self._base)
        values = [privileged[spec.slice(f"random.{knob.name}")] for knob in self._knobs]
        self.write(model, np.concatenate(values).astype(np.float64))
        return model

    def of(self, rows: Int64) -> list[mujoco.MjModel] | None:
        """The models of the worlds `rows` (n,); None where all are the same."""
        return [self._models[r] for r in rows.tolist()] if self._knobs else None

    def blocks(self, rows: Int64, lead: tuple[int, ...]) -> tuple[Block, ...]:
        """The values of the worlds `rows` (n,) for an observation of leading axes `lead`, (n,) or (n, K)."""
        blocks: list[Block] = []
        start = 0
        for knob in self._knobs:
            size = len(knob.parts)
            values = self._values[rows, start : start + size].reshape(len(rows), *(1,) * (len(lead) - 1), size)
            full = np.broadcast_to(values, (*lead, size))
            # Rounding to float32 must not leave the bounds.
            slack = 1e-6 * max(1.0, abs(knob.high))
            blocks.append(
                Block(f"random.{knob.name}", knob.parts, knob.unit, knob.low - slack, knob.high + slack, full)
            )
            start += size
        return tuple(blocks)
