"""N worlds of a task that somebody else simulates, behind `robotrl.interfaces.Environment`.

A suite gives one world at a time: a start from a seed, and a tick under an action. `SuiteEnvironment` makes N of them
into a batch with horizons, endings and masks. A world's start depends on its seed alone and its way on the actions
alone, so a snapshot is the seed and the actions so far, and restoring it plays them again: bit-exact for every
simulator, whatever it hides in its objects, at the price of the ticks that were already run.
"""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from robotrl.errors import ConfigurationError, DataError
from robotrl.specs import ArraySpec, CameraSpec, Capabilities, EnvironmentSpec, SceneSpec
from robotrl.types import Bool, Branch, Float32, Float64, Int64, Observation, Snapshot, Transition, UInt8
from sim.batch import moving_actions, require_own, require_seeds, require_worlds, rows_of
from sim.scene import PHYSICS

Simulation = tuple[mujoco.MjModel, mujoco.MjData]
"""What MuJoCo steps: a model and its data."""
NOTHING = ArraySpec("privileged", (), (), (), ())
"""The privileged vector of a suite: what a suite tells, it tells in the state."""
_NEVER = -1


@dataclass(frozen=True)
class Moment:
    """What a suite says of one world after a reset or a tick.

    Attributes:
        state: (S,) float32.
        reward: as the suite counts it.
        success: whether the suite's own condition of success holds.
        over: whether the suite ended the episode, without success, other than by its time limit.
    """

    state: Float32
    reward: float = 0.0
    success: bool = False
    over: bool = False


class World(ABC):
    """One world of a suite's task."""

    @property
    @abstractmethod
    def spec(self) -> EnvironmentSpec:
        """What it promises; `suite_spec` makes it."""

    @abstractmethod
    def reset(self, seed: int) -> Moment:
        """Start from `seed`, whatever was before."""

    @abstractmethod
    def step(self, action: Float32) -> Moment:
        """One control tick under `action` (A,), which is finite and inside the bounds of the spec."""

    @property
    @abstractmethod
    def simulation(self) -> Simulation | None:
        """The model and data that it steps now, or None where it is not MuJoCo."""

    @abstractmethod
    def picture(self, camera: CameraSpec) -> UInt8:
        """What `camera` sees now, (H, W, 3)."""

    @abstractmethod
    def close(self) -> None:
        """Free what it holds."""


def suite_spec(
    *,
    task: str,
    robot: str,
    state: ArraySpec,
    action: ArraySpec,
    simulation: Simulation | None,
    control_hz: float,
    horizon: int,
    instruction: str,
    cameras: Sequence[CameraSpec],
    momentary: Sequence[str] = (),
) -> EnvironmentSpec:
    """The spec of a suite's task. An episode ends at the first tick with success, as suites count it."""
    if horizon < 1:
        raise ConfigurationError(f"task '{task}': expected a horizon of at least 1 tick, got {horizon}")
    return EnvironmentSpec(
        task=task,
        robot=robot,
        state=state,
        privileged=NOTHING,
        action=action,
        physics_size=0 if simulation is None else mujoco.mj_stateSize(simulation[0], PHYSICS),
        control_hz=control_hz,
        horizon=horizon,
        settle_ticks=1,
        instructions=(instruction,),
        tool_frame="",
        scene=SceneSpec((), ()),
        capabilities=Capabilities(snapshot=True, batched=True, faster_than_real_time=True),
        cameras=tuple(cameras),
        momentary=tuple(momentary),
    )


@dataclass
class _Ticks:
    """What K ticks of N worlds left; written world by world."""

    state: Float32
    physics: Float64
    reward: Float32
    terminated: Bool
    truncated: Bool
    success: Bool
    valid: Bool
    failure: list[str] = field(default_factory=list[str])


class SuiteEnvironment:
    """A suite's task, N times. The worlds are stepped one after another: suites are Python.

    Args:
        make: makes a world; called once for each that is used, when it first starts.
        worlds: N.
    """

    def __init__(self, make: Callable[[], World], worlds: int) -> None:
        require_worlds(worlds)
        self._make, self._worlds = make, worlds
        self._open = {0: make()}
        self._spec = spec = self._open[0].spec
        self._state = np.zeros((worlds, spec.state.size), np.float32)
        self._physics = np.zeros((worlds, spec.physics_size))
        self._past = np.zeros((worlds, spec.horizon, spec.action.size), np.float32)
        self._tick = np.zeros(worlds, np.int64)
        self._seed = np.full(worlds, _NEVER, np.int64)
        self._running = np.zeros(worlds, np.bool_)

    @property
    def spec(self) -> EnvironmentSpec:
        """What the environment promises."""
        return self._spec

    @property
    def worlds(self) -> int:
        """N."""
        return self._worlds

    def reset(self, seeds: Int64, mask: Bool) -> Observation:
        """Start the worlds in `mask` (N,) from `seeds` (N,); see `Environment.reset`."""
        rows = rows_of(mask, self._worlds)
        require_seeds(seeds, self._worlds)
        for row in rows.tolist():
            self._begin(row, int(seeds[row]))
        return self._observation()

    def step(self, actions: Float32, mask: Bool, render: Bool | None = None) -> Transition:
        """Advance the worlds in `mask` (N,) by K ticks under `actions` (N, K, A); see `Environment.step`."""
        rows = rows_of(mask, self._worlds)
        drawn = [] if render is None else rows_of(render, self._worlds).tolist()
        requested = moving_actions(actions, rows, self._running, self._spec.action)
        ticks = requested.shape[1]
        executed = np.zeros((self._worlds, ticks, self._spec.action.size), np.float32)
        executed[rows] = self._spec.action.clip(requested)
        clamped = np.zeros((self._worlds, ticks), np.uint8)
        clamped[rows] = (executed[rows] != requested).any(-1)
        out = self._still(ticks)
        for row in rows.tolist():
            self._run(row, executed[row], out)
        return Transition(
            state=out.state,
            privileged=np.zeros((self._worlds, ticks, 0), np.float32),
            physics=out.physics,
            actions=executed,
            clamped=clamped,
            reward=out.reward,
            terminated=out.terminated,
            truncated=out.truncated,
            success=out.success,
            valid=out.valid,
            failure=tuple(out.failure),
            observation=self._observation(drawn),
        )

    def _still(self, ticks: int) -> _Ticks:
        """K `ticks` in which no world moves."""
        flags = np.zeros((4, self._worlds, ticks), np.bool_)
        return _Ticks(
            state=self._state[:, None].repeat(ticks, axis=1),
            physics=self._physics[:, None].repeat(ticks, axis=1),
            reward=np.zeros((self._worlds, ticks), np.float32),
            terminated=flags[0],
            truncated=flags[1],
            success=flags[2],
            valid=flags[3],
            failure=[""] * self._worlds,
        )

    def _run(self, row: int, actions: Float32, out: _Ticks) -> None:
        """Step one world under `actions` (K, A) until they or its episode are over, and write down what came of it."""
        for k, action in enumerate(actions):
            moment, sound = self._tick_of(row, action)
            late = bool(self._tick[row] >= self._spec.horizon)
            success = moment.success and sound
            terminated = success or moment.over or not sound
            out.reward[row, k], out.success[row, k], out.valid[row, k] = moment.reward, success, True
            out.terminated[row, k], out.truncated[row, k] = terminated, late and not terminated
            out.state[row, k:], out.physics[row, k:] = self._state[row], self._physics[row]
            if terminated or late:
                reason = "diverged" if not sound else "failed" if terminated else "timeout"
                out.failure[row] = "" if success else reason
                out.success[row, k:] = success
                self._running[row] = False
                return

    def _begin(self, row: int, seed: int) -> None:
        """Start one world."""
        if row not in self._open:
            self._open[row] = self._make()
        self._keep(row, self._open[row].reset(seed))
        self._tick[row], self._seed[row], self._running[row] = 0, seed, True

    def _tick_of(self, row: int, action: Float32) -> tuple[Moment, bool]:
        """Step one world by a tick: what its suite says, and whether its numbers are finite."""
        self._past[row, self._tick[row]] = action
        moment = self._open[row].step(action)
        self._tick[row] += 1
        return moment, self._keep(row, moment)

    def _keep(self, row: int, moment: Moment) -> bool:
        """Remember where a world is, unless its numbers are not finite: then its last finite ones stand."""
        physics = self._physics[row].copy()
        simulation = self._open[row].simulation
        if simulation is not None:
            mujoco.mj_getState(*simulation, physics, PHYSICS)
        sound = bool(np.isfinite(moment.state).all() and np.isfinite(physics).all() and np.isfinite(moment.reward))
        if sound:
            self._state[row], self._physics[row] = moment.state, physics
        return sound

    def _observation(self, drawn: Sequence[int] = ()) -> Observation:
        """Of all worlds, with pictures of the worlds `drawn`."""
        return Observation(
            state=self._state.copy(),
            privileged=np.zeros((self._worlds, 0), np.float32),
            images=self._images(drawn) if len(drawn) else {},
            instruction=self._spec.instructions * self._worlds,
            tick=self._tick.copy(),
            time_ns=np.round(self._tick * (1e9 / self._spec.control_hz)).astype(np.int64),
            physics=self._physics.copy(),
        )

    def _images(self, rows: Sequence[int]) -> dict[str, UInt8]:
        """Pictures (N, H, W, 3) of the worlds `rows`, zeros for the others."""
        images: dict[str, UInt8] = {}
        for camera in self._spec.cameras:
            images[camera.name] = np.zeros((self._worlds, camera.height, camera.width, 3), np.uint8)
            for row in rows:
                images[camera.name][row] = self._open[row].picture(camera)
        return images

    def film(self, seed: int, physics: Float64) -> UInt8:
        """Pictures (F, H, W, 3) of states (F, X) of the episode that started from `seed`, by the first camera."""
        world = self._open[0]
        self._begin(0, seed)  # a start may move what a physics state does not hold
        if world.simulation is None or not self._spec.cameras:
            raise ConfigurationError(
                f"'{self._spec.task}' has no pictures of stored states: expected a MuJoCo model and one of its cameras "
                "in task.environment.cameras"
            )
        frames: list[UInt8] = []
        for state in physics:
            model, data = world.simulation
            mujoco.mj_setState(model, data, np.asarray(state, np.float64), PHYSICS)
            mujoco.mj_forward(model, data)
            frames.append(world.picture(self._spec.cameras[0]))
        return np.stack(frames)

    def snapshot(self, mask: Bool) -> Snapshot:
        """The seeds, ticks and past actions of the worlds in `mask`; see `Environment.snapshot`."""
        rows = rows_of(mask, self._worlds)
        if (self._seed[rows] == _NEVER).any():
            raise DataError(f"snapshot: worlds {rows[self._seed[rows] == _NEVER].tolist()} were never reset")
        counters = np.stack([self._seed[rows], self._tick[rows], self._running[rows]], axis=1).astype(np.int64)
        return self._packed(rows, self._past[rows], counters)

    def snapshot_of(self, branch: Branch) -> Snapshot:
        """The seed and the actions of the parent until the branch; see `Branching.snapshot_of`."""
        require_own(branch, self._spec)
        past = np.zeros_like(self._past[:1])
        past[0, : branch.tick] = branch.parent.action[: branch.tick]
        return self._packed(np.zeros(1, np.int64), past, np.array([[branch.parent.meta.seed, branch.tick, True]]))

    def _packed(self, rows: Int64, past: Float32, counters: Int64) -> Snapshot:
        """The snapshot of n worlds with `past` actions (n, horizon, A) and `counters` (n, 3)."""
        physics = past.reshape(len(rows), -1).astype(np.float64)
        return Snapshot(rows, physics, counters, ("",) * len(rows), self._spec.fingerprint)

    def restore(self, snapshot: Snapshot, mask: Bool) -> Observation:
        """Start the worlds in `mask` again and play the snapshot's actions; see `Environment.restore`."""
        rows = rows_of(mask, self._worlds)
        if snapshot.fingerprint != self._spec.fingerprint:
            raise DataError(
                f"the snapshot belongs to environment {snapshot.fingerprint}, this one is {self._spec.fingerprint}: "
                "restore it into the same task with the same parameters"
            )
        if snapshot.physics.shape != (len(rows), self._past[0].size):
            raise DataError(f"snapshot: expected shape {(len(rows), self._past[0].size)}, got {snapshot.physics.shape}")
        past = snapshot.physics.astype(np.float32).reshape(len(rows), *self._past.shape[1:])
        for row, actions, (seed, tick, running) in zip(rows.tolist(), past, snapshot.counters.tolist(), strict=True):
            self._begin(row, seed)
            for action in actions[:tick]:
                self._tick_of(row, action)
            self._running[row] = bool(running)
        return self._observation()

    def close(self) -> None:
        """Close the worlds. Idempotent."""
        for world in self._open.values():
            world.close()
        self._open.clear()
