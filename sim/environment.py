"""N worlds of one MuJoCo task behind `robotrl.interfaces.Environment`."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from robotrl import seeds as seed_streams
from robotrl.errors import ConfigurationError, DataError
from robotrl.specs import CameraSpec, Capabilities, EnvironmentSpec
from robotrl.types import Bool, Branch, Float32, Float64, Int64, Observation, Snapshot, Transition, UInt8
from sim import scene
from sim.actuation import Actuation
from sim.batch import moving_actions, require_own, require_seeds, require_worlds, rows_of, spread
from sim.endings import endings, streaks
from sim.engine import Engine
from sim.perception import Perception, PoseNoise
from sim.randomisation import Randomisation, Variants
from sim.render import SceneRenderer, check_camera
from sim.robots import Robot, robot_called
from sim.tasks.base import Block, Measurement, Task, View, array_spec, stack

SETTLE_S = 0.5
"""So long success must hold."""
_MAX_DRAWS = 100
_EXACT = PoseNoise()
_ALIKE = Randomisation()
_FRONT = CameraSpec("front", 240, 320)
_FIRST_WORLD = np.zeros(1, np.int64)
_NOBODY = np.zeros(0, np.int64)


class MujocoEnvironment:
    """A task on a robot, N times, stepped on several cores.

    Args:
        task: what to do.
        worlds: N.
        threads: cores to use; 0 means all that the process may use. Results do not depend on it.
        robot: name of one that the task can be done with; the first of them when None.
        noise: how object poses are spoiled in the observation; exact by default.
        randomisation: how worlds differ in physics, looks and actuation; they do not by default.
        cameras: what a call that asks to render gives images of.
    """

    def __init__(
        self,
        task: Task,
        worlds: int = 64,
        threads: int = 1,
        robot: str | None = None,
        noise: PoseNoise = _EXACT,
        randomisation: Randomisation = _ALIKE,
        cameras: Sequence[CameraSpec] = (_FRONT,),
    ) -> None:
        require_worlds(worlds)
        self.task, self.robot = task, _robot_for(task, robot)
        self.model = scene.compile_model(task.name, self.robot, task.objects(self.robot))
        for camera in cameras:
            check_camera(self.model, camera)
        self._engine = Engine(self.model, threads, self.robot.substeps)
        self._view = View.of(self.model, self.robot)
        self._perception = Perception(self._view.scene, worlds, noise)
        self._variants = Variants(self.model, worlds, randomisation)
        self._renderers: dict[str, SceneRenderer] = {}
        self._worlds = worlds
        horizon = max(1, round(task.time_limit_s * self.robot.control_hz))
        self._actuation = Actuation(randomisation, worlds, horizon, self.robot.is_joint)
        sample = task.measure(self._view, self._view.at_rest())
        exact = (*sample.privileged, *self._differences(_FIRST_WORLD, (1,)))
        self._spec = _spec(task, self._view, sample.state, exact, horizon, _distinct(cameras))
        self._targets = scene.control_slice(self.model)
        self._period_ns = round(1e9 * self.robot.period_s)
        self._physics = np.zeros((worlds, self._view.size))
        self._state = np.zeros((worlds, self._spec.state.size), np.float32)
        self._privileged = np.zeros((worlds, self._spec.privileged.size), np.float32)
        self._tick = np.zeros(worlds, np.int64)
        self._streak = np.zeros(worlds, np.int64)
        self._instruction = np.zeros(worlds, np.int64)
        self._seed = np.zeros(worlds, np.int64)
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
        if len(rows):
            chosen = np.asarray(seeds)[rows]
            physics, instruction, found = self._starts(chosen)
            perceived = self._perception.begin(rows, chosen, physics)
            seen = found if perceived is physics else self.task.measure(self._view, perceived, instruction)
            self._physics[rows], self._instruction[rows], self._seed[rows] = physics, instruction, chosen
            self._differ(rows)
            self._actuation.hold(rows, self.robot.actions_of(physics[:, self._targets]))
            self._state[rows], self._privileged[rows] = stack(seen.state), self._exact(rows, found)
            self._tick[rows] = self._streak[rows] = 0
            self._running[rows] = True
        return self._observation()

    def _starts(self, seeds: Int64) -> tuple[Float64, Int64, Measurement]:
        """A start (n, X) and an instruction (n,) for every seed, from its own generator, and what is true of them.

        Starts that are already solved or failed are redrawn.
        """
        task, view = self.task, self._view
        streams = [seed_streams.generator(int(s), "start") for s in seeds]
        instruction = np.array([task.choose(rng) for rng in streams], np.int64)
        physics = np.stack([task.draw(view, rng, int(i)) for rng, i in zip(streams, instruction, strict=True)])
        for _ in range(_MAX_DRAWS):
            found = task.measure(view, physics, instruction)
            over = found.success | (found.failure > 0)
            if not over.any():
                return physics, instruction, found
            for row in np.flatnonzero(over):
                physics[row] = task.draw(view, streams[row], int(instruction[row]))
        raise ConfigurationError(
            f"task '{task.name}': {_MAX_DRAWS} draws gave some seed no start that is neither solved nor failed"
        )

    def step(self, actions: Float32, mask: Bool, render: Bool | None = None) -> Transition:
        """Advance the worlds in `mask` (N,) by K ticks under `actions` (N, K, A); see `Environment.step`."""
        rows, drawn = rows_of(mask, self._worlds), _NOBODY if render is None else rows_of(render, self._worlds)
        requested = moving_actions(actions, rows, self._running, self._spec.action)
        before = self._physics[rows]
        previous = self.robot.actions_of(before[:, self._targets])
        arriving = self._actuation.arriving(rows, self._tick[rows], requested)
        executed = self.robot.limit_rate(self._spec.action.clip(arriving), previous)
        physics, sound = self._engine.run(before, self.robot.controls(executed), self._variants.of(rows))
        found, state = self._observe(rows, physics)
        limits = self._spec.settle_ticks, self._spec.horizon
        ending = endings(found, sound, self._streak[rows], self._tick[rows], *limits)
        privileged, success, reward = self._exact(rows, found), found.success & sound, found.reward.astype(np.float32)
        ticks = np.arange(requested.shape[1])
        valid = ticks <= ending.last[:, None]
        if not valid.all():
            # A world that ended keeps the state of its last valid tick.
            kept = np.arange(len(rows))[:, None], np.minimum(ticks, ending.last[:, None])
            state, privileged, physics, success = state[kept], privileged[kept], physics[kept], success[kept]
            reward[~valid] = 0.0
        self._physics[rows], self._state[rows], self._privileged[rows] = physics[:, -1], state[:, -1], privileged[:, -1]
        self._tick[rows] += ending.last + 1
        self._streak[rows] = ending.streak
        self._running[rows] = ~(ending.terminated | ending.truncated).any(1)
        n = self._worlds
        reason = [""] * n
        for index, why in ending.reason.items():
            reason[rows[index]] = why
        return Transition(
            state=spread(rows, n, state, self._state),
            privileged=spread(rows, n, privileged, self._privileged),
            physics=spread(rows, n, physics, self._physics),
            actions=spread(rows, n, executed),
            clamped=spread(rows, n, (executed != requested).any(-1).astype(np.uint8)),
            reward=spread(rows, n, reward),
            terminated=spread(rows, n, ending.terminated),
            truncated=spread(rows, n, ending.truncated),
            success=spread(rows, n, success),
            valid=spread(rows, n, valid),
            failure=tuple(reason),
            observation=self._observation(drawn),
        )

    def _differ(self, rows: Int64) -> None:
        """Make the worlds `rows` (n,) differ as their seeds say."""
        self._variants.begin(rows, self._seed[rows])
        self._actuation.begin(rows, self._seed[rows])

    def _differences(self, rows: Int64, lead: tuple[int, ...]) -> tuple[Block, ...]:
        """By what the worlds `rows` (n,) differ, for an observation of leading axes `lead`, (n,) or (n, K)."""
        return (*self._variants.blocks(rows, lead), *self._actuation.blocks(rows, lead))

    def _exact(self, rows: Int64, found: Measurement) -> Float32:
        """The privileged vectors (n, P) or (n, K, P) of the worlds `rows` (n,)."""
        return stack((*found.privileged, *self._differences(rows, found.reward.shape)))

    def _observe(self, rows: Int64, physics: Float64) -> tuple[Measurement, Float32]:
        """What is true of the states (n, K, X), and the state vectors (n, K, S) that perception makes of them."""
        instruction = self._instruction[rows, None]
        found = self.task.measure(self._view, physics, instruction)
        perceived = self._perception.observe(rows, physics)
        seen = found if perceived is physics else self.task.measure(self._view, perceived, instruction)
        return found, stack(seen.state)

    def _observation(self, drawn: Int64 = _NOBODY) -> Observation:
        """Of all worlds, with pictures of the worlds `drawn` (n,)."""
        return Observation(
            state=self._state.copy(),
            privileged=self._privileged.copy(),
            images=self._images(drawn) if len(drawn) else {},
            instruction=tuple(map(self.task.instructions.__getitem__, self._instruction.tolist())),
            tick=self._tick.copy(),
            time_ns=self._tick * self._period_ns,
            physics=self._physics.copy(),
        )

    def _images(self, rows: Int64) -> dict[str, UInt8]:
        """Pictures (N, H, W, 3) of the worlds `rows` (n,), zeros for the others."""
        models = self._variants.of(rows) or [self.model] * len(rows)
        images: dict[str, UInt8] = {}
        for camera in self._spec.cameras:
            images[camera.name] = np.zeros((self._worlds, camera.height, camera.width, 3), np.uint8)
            for row, like in zip(rows, models, strict=True):
                images[camera.name][row] = self._opened()[camera.name].frame(self._physics[row], like)
        return images

    def _opened(self) -> dict[str, SceneRenderer]:
        """The renderers of the cameras; their graphics contexts open at the first call, in the calling thread."""
        if not self._renderers:
            self._renderers = {camera.name: SceneRenderer(self.model, camera) for camera in self._spec.cameras}
        return self._renderers

    def draw(self, physics: Float64, privileged: Float32) -> dict[str, UInt8]:
        """Pictures (F, H, W, 3) of states (F, X) stored with `privileged` (F, P); see `Drawer.draw`."""
        like = self.recorded(privileged[0])
        return {name: renderer.video(physics, like) for name, renderer in self._opened().items()}

    def recorded(self, privileged: Float32) -> mujoco.MjModel:
        """The model of the world that recorded this `privileged` vector (P,)."""
        return self._variants.recorded(self._spec.privileged, privileged)

    def snapshot(self, mask: Bool) -> Snapshot:
        """What the worlds in `mask` need to go on; see `Environment.snapshot`.

        A row of `physics` holds the physics state, the state vector as perceived, the poses still to be perceived and
        the actions still to arrive.
        """
        rows = rows_of(mask, self._worlds)
        parts = self._physics, self._state, *self._late
        counters = np.stack([counter[rows].astype(np.int64) for counter in self._counters], axis=1)
        return self._packed(rows, [p[rows] for p in parts], counters, self._perception.generator_states(rows))

    def snapshot_of(self, branch: Branch) -> Snapshot:
        """The snapshot of the world in which `branch` begins; see `Branching.snapshot_of`."""
        require_own(branch, self._spec)
        episode, tick, meta = branch.parent, branch.tick, branch.parent.meta
        physics = episode.physics[: tick + 1]
        past, generator = self._perception.replayed(meta.seed, physics)
        held = self.robot.actions_of(physics[0, self._targets])
        pending = self._actuation.replayed(held, episode.action_requested[:tick])
        streak = streaks(np.zeros(1, np.int64), episode.success[None, :tick])[0, -1] if tick else 0
        counters = np.array([[tick, streak, True, self.task.instructions.index(meta.instruction), meta.seed]])
        parts = physics[-1:], episode.state[tick, None], past[None], pending[None]
        return self._packed(_FIRST_WORLD, parts, counters, (generator,))

    def _packed(
        self, rows: Int64, parts: Sequence[NDArray[np.generic]], counters: Int64, generators: tuple[str, ...]
    ) -> Snapshot:
        """The snapshot of n worlds with these `parts` (n, ...) and `counters` (n, C)."""
        physics = np.concatenate([part.reshape(len(rows), -1).astype(np.float64) for part in parts], axis=1)
        return Snapshot(rows, physics, counters, generators, self._spec.fingerprint)

    @property
    def _counters(self) -> tuple[NDArray[np.generic], ...]:
        """Whole numbers (N,) that a world has beside its physics."""
        return self._tick, self._streak, self._running, self._instruction, self._seed

    @property
    def _late(self) -> tuple[NDArray[np.generic], ...]:
        """What is still under way in a world, (N, ...)."""
        return self._perception.past, self._actuation.pending

    def restore(self, snapshot: Snapshot, mask: Bool) -> Observation:
        """Put the worlds in `mask` into the snapshot's states, in order; see `Environment.restore`."""
        rows = rows_of(mask, self._worlds)
        if snapshot.fingerprint != self._spec.fingerprint:
            raise DataError(
                f"the snapshot belongs to environment {snapshot.fingerprint}, this one is {self._spec.fingerprint}: "
                "restore it into the same task with the same parameters"
            )
        parts = self._physics, self._state, *self._late
        ends = np.cumsum([part[0].size for part in parts])
        if snapshot.physics.shape != (len(rows), ends[-1]):
            raise DataError(f"snapshot: expected shape {(len(rows), int(ends[-1]))}, got {snapshot.physics.shape}")
        for counter, values in zip(self._counters, snapshot.counters.T, strict=True):
            counter[rows] = values
        self._differ(rows)
        for part, values in zip(parts, np.split(snapshot.physics, ends[:-1], axis=1), strict=True):
            part[rows] = values.reshape(len(rows), *part.shape[1:])
        found = self.task.measure(self._view, self._physics[rows], self._instruction[rows])
        self._privileged[rows] = self._exact(rows, found)
        self._perception.restore_generators(rows, snapshot.generators)
        return self._observation()

    def close(self) -> None:
        """Stop the threads and free the graphics context. Idempotent."""
        self._engine.close()
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers = {}


def _robot_for(task: Task, name: str | None) -> Robot:
    """The robot of this name, if the task can be done with it; the task's first one when None."""
    if name is None:
        return robot_called(task.robots[0])
    robot = robot_called(name)
    if name not in task.robots:
        raise ConfigurationError(f"task '{task.name}' has no robot '{name}'; it is done with {', '.join(task.robots)}")
    return robot


def _distinct(cameras: Sequence[CameraSpec]) -> tuple[CameraSpec, ...]:
    """The cameras, no two of which would give images of one name."""
    names = [camera.name for camera in cameras]
    if len(set(names)) != len(names):
        raise ConfigurationError(f"cameras: expected each name once, got {', '.join(names)}")
    return tuple(cameras)


def _spec(
    task: Task,
    view: View,
    state: tuple[Block, ...],
    privileged: tuple[Block, ...],
    horizon: int,
    cameras: tuple[CameraSpec, ...],
) -> EnvironmentSpec:
    """The spec of `task`; element names and bounds come from the blocks of one measured state."""
    robot = view.robot
    return EnvironmentSpec(
        task=task.name,
        robot=robot.name,
        state=array_spec("state", state),
        privileged=array_spec("privileged", privileged),
        action=robot.action,
        physics_size=view.size,
        control_hz=robot.control_hz,
        horizon=horizon,
        settle_ticks=round(SETTLE_S * robot.control_hz),
        instructions=task.instructions,
        tool_frame=view.arm.tool,
        scene=view.scene,
        capabilities=Capabilities(snapshot=True, batched=True, faster_than_real_time=True),
        cameras=cameras,
    )
