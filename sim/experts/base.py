"""The expert: a phase table gives a goal, inverse kinematics turns it into joint targets a short way ahead.

The law has no memory: the phase is read off the state at every tick. So it can take over from anybody at any moment,
and a policy that sees the state can imitate it. The only thing that an episode fixes is its noise.
"""

from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np

from robotrl import seeds as seed_streams
from robotrl.errors import DataError, unknown_name
from robotrl.specs import EnvironmentSpec
from robotrl.types import ActionChunk, Committed, Float32, Float64, Int64, Observation
from sim.experts import bimanual_insert, conveyor, drawer, handover, insert, pick_place, reach, sort, stack
from sim.experts.guide import Elements, Goal, Guide
from sim.ik import ArmKinematics
from sim.robots import robot_called

GUIDES: dict[str, Guide] = {
    "bimanual_insert": bimanual_insert.GUIDE,
    "conveyor": conveyor.GUIDE,
    "drawer": drawer.GUIDE,
    "handover": handover.GUIDE,
    "insert": insert.GUIDE,
    "pick_place": pick_place.GUIDE,
    "reach": reach.GUIDE,
    "sort": sort.GUIDE,
    "stack": stack.GUIDE,
}

# The servos close a gap with a time constant of 0.1 s, so a lead of 3 cm is a speed of 0.3 m/s.
_MAX_LEAD_M = 0.03
_MAX_LEAD_RAD = 0.2
_WANDER_S = 0.5


class Expert:
    """Solves the task of `spec`, many worlds at once.

    Args:
        spec: of the environment; its task names the phase table.
        worlds: N of the observations passed to `act`.
        noise_m: standard deviation of the wandering of the commanded tool position at full speed; less when slow.
        noise_rad: the same of its yaw.
    """

    def __init__(self, spec: EnvironmentSpec, worlds: int, noise_m: float = 0.004, noise_rad: float = 0.02) -> None:
        if spec.task not in GUIDES:
            raise unknown_name("expert", spec.task, GUIDES)
        self.spec = spec
        self.guide = GUIDES[spec.task]
        self.robot = robot_called(spec.robot)
        self._where = cache(spec.state.slice)
        self._arms = {arm.prefix: ArmKinematics(spec.scene, arm) for arm in self.robot.arms}
        self._scale = np.tile([noise_m] * 3 + [noise_rad], len(self._arms))
        # The whole path of the noise is drawn at reset: it depends on the seed and the tick alone.
        self._noise = np.zeros((worlds, spec.horizon + 1, 4 * len(self._arms)))

    def reset(self, rows: Int64, seeds: Int64) -> None:
        """Draw the noise of the episodes that begin in worlds `rows` (n,) from `seeds` (n,)."""
        self.wander(rows, [seed_streams.generator(int(seed), "expert") for seed in seeds])

    def wander(self, rows: Int64, rng: Sequence[np.random.Generator]) -> None:
        """Draw the noise of the whole episodes in worlds `rows` (n,), each from its generator."""
        if len(rows):
            white = np.stack([r.standard_normal(self._noise.shape[1:]) for r in rng])
            self._noise[rows] = _wander(white, self.spec.control_hz) * self._scale

    def act(self, observation: Observation, rows: Int64) -> Float32:
        """Actions (n, A) for the worlds `rows` (n,) of `observation` (N worlds), at their current tick."""
        if len(observation.tick) != len(self._noise):
            raise DataError(f"expert for {len(self._noise)} worlds got an observation of {len(observation.tick)}")
        return self.drive(observation.state[rows], observation.tick[rows], rows)

    def drive(self, state: Float32, tick: Int64, rows: Int64) -> Float32:
        """Actions (n, A) for `state` (n, S) at `tick` (n,) of the worlds `rows` (n,)."""
        return self.command(state.astype(np.float64), self._noise[rows, np.minimum(tick, self.spec.horizon)])

    def goal(self, state: Float64) -> Goal:
        """What the phase table says about `state` (n, S); of the first arm where there are several."""
        return self._goals(state)[0]

    def _goals(self, state: Float64) -> tuple[Goal, ...]:
        """The goal of every arm in `state` (n, S)."""
        found = self.guide.law(Elements(self.robot, lambda prefix: state[:, self._where(prefix)]))
        return (found,) if isinstance(found, Goal) else found

    def command(self, state: Float64, noise: Float64) -> Float32:
        """Actions (n, A) for `state` (n, S), with `noise` (n, 4 an arm) m and rad at full speed on the tool's way."""
        parts: list[Float64] = []
        for k, (arm, goal) in enumerate(zip(self.robot.arms, self._goals(state), strict=True)):
            joints = state[:, self.spec.state.elements.index(arm.joints[0]) :][:, : len(arm.joints)]
            shift, turn = _wandering(goal, noise[:, 4 * k : 4 * k + 4])
            parts += [self._arms[arm.prefix].reach(joints, shift, turn), goal.opening[:, None]]
        return self.spec.action.clip(np.concatenate(parts, axis=-1))


def _wandering(goal: Goal, noise: Float64) -> tuple[Float64, Float64]:
    """How far to move and turn now, (n, 3) m and (n, 3) rad: a short lead on the way, with `noise` (n, 4)."""
    shift, turn = _limited(goal.shift, _MAX_LEAD_M), _limited(goal.turn, _MAX_LEAD_RAD)
    # The hand wanders most at full speed.
    way = np.sqrt(np.square(shift[:, :2]).sum(-1, keepdims=True)) / _MAX_LEAD_M
    loose = goal.freedom[:, None] * np.clip(1.5 * way - 0.3, 0.5, 1.0)
    return shift + loose * noise[:, :3], turn + loose * noise[:, 3:] * np.array([0.0, 0.0, 1.0])


def _wander(white: Float64, control_hz: float) -> Float64:
    """Ornstein-Uhlenbeck paths of unit variance and a correlation time of half a second from `white`, (n, T, k)."""
    keep = np.exp(-1.0 / (_WANDER_S * control_hz))
    path = np.sqrt(1.0 - keep**2) * white
    value = white[:, 0]
    for t in range(white.shape[1]):
        path[:, t] += keep * value
        value = path[:, t]
    return path


def _limited(vector: Float64, longest: float) -> Float64:
    """`vector` (n, 3), shortened to length `longest` where it is longer."""
    length = np.sqrt(np.square(vector).sum(-1, keepdims=True))
    return vector * np.minimum(1.0, longest / np.maximum(length, 1e-9))


class Demonstrator(Protocol):
    """What an expert has, to be a policy."""

    def wander(self, rows: Int64, rng: Sequence[np.random.Generator]) -> None:
        """Draw the noise of the whole episodes in worlds `rows` (n,), each from its generator."""
        ...

    def drive(self, state: Float32, tick: Int64, rows: Int64) -> Float32:
        """Actions (n, A) for `state` (n, S) at `tick` (n,) of the worlds `rows` (n,)."""
        ...


class ExpertPolicy:
    """An expert as a `Policy` that proposes one action at a time, with the noise of a demonstrator.

    The noise of an episode is drawn when it begins.
    """

    history = 1
    chunk_length = 1
    cameras = ()
    version = 0

    def __init__(self, expert: Demonstrator) -> None:
        self._expert = expert

    def begin(self, rows: Int64, rng: Sequence[np.random.Generator]) -> None:
        """See `EpisodicPolicy.begin`."""
        self._expert.wander(rows, rng)

    def propose(
        self, observation: Observation, rows: Int64, committed: Committed, rng: Sequence[np.random.Generator]
    ) -> ActionChunk:
        """See `Policy.propose`; `committed` and `rng` are not used."""
        actions = self._expert.drive(observation.state[:, -1], observation.tick, rows)
        return ActionChunk(rows, actions[:, None], observation.tick, self.version)
