"""A simulated person who watches many worlds and drives one at a time.

The person is called to a world (by the critic's alarm, by a stall, at random, or by looking around), turns to it
for `reaction_s` while its policy runs on, drives as the expert would for at least `min_drive_s`, and hands back
when the critic is confident again. Thresholds differ (hysteresis), so that control does not flicker. Seconds of
driving, turning and watching are kept apart, and the person leaves when the driving budget is spent.

Defaults follow the measured recipe: late but reversible takeovers, short corrections, immediate hand-back.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, Protocol

import numpy as np

from robotrl import seeds
from robotrl.errors import ConfigurationError
from robotrl.specs import EnvironmentSpec
from robotrl.types import Bool, Command, ControlMode, Float32, Int64, Observation, Status, Trigger

TriggerName = Literal["alarm", "stall", "random", "self"]


class Expert(Protocol):
    """What the person does when driving: an expert for the task, restartable from any state."""

    def reset(self, rows: Int64, seeds: Int64) -> None:
        """Begin in the worlds `rows` (n,); the noise of each comes from its seed (n,)."""
        ...

    def act(self, observation: Observation, rows: Int64) -> Float32:
        """Targets (n, A) of the worlds `rows` at this tick; `observation` holds all N worlds."""
        ...


@dataclass(frozen=True)
class OperatorConfig:
    """How the person behaves; times in seconds, probabilities by the critic.

    Attributes:
        trigger: what calls the person.
        budget_s: seconds of driving, after which the person leaves; infinity for no limit.
        alarm_below: success probability that raises the alarm, after `alarm_ticks` consecutive ticks.
        hand_back_above: success probability at which control returns to the policy.
        reaction_s: from turning to a world to driving it.
        min_drive_s: shortest correction.
        rearm_s: quiet time of a world after hand-back.
        stall_s: a world whose tools moved less than `stall_m` in that time has stalled (trigger "stall").
        random_per_minute: calls a running world gets per minute (trigger "random").
        glance_s: how long the person looks at one world before the next (trigger "self").
        suspend_waiting: simulation may stop a calling world until the person comes.
    """

    trigger: TriggerName = "alarm"
    budget_s: float = 120.0
    alarm_below: float = 0.35
    alarm_ticks: int = 2
    hand_back_above: float = 0.7
    reaction_s: float = 0.5
    min_drive_s: float = 0.6
    rearm_s: float = 0.5
    stall_s: float = 1.5
    stall_m: float = 0.01
    random_per_minute: float = 10.0
    glance_s: float = 1.0
    suspend_waiting: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.alarm_below < self.hand_back_above <= 1:
            raise ConfigurationError(
                "operator: expected 0 <= alarm_below < hand_back_above <= 1, got "
                f"{self.alarm_below} and {self.hand_back_above}"
            )
        if self.budget_s < 0 or min(self.reaction_s, self.min_drive_s, self.rearm_s) < 0:
            raise ConfigurationError(f"operator: times must not be negative, got {self}")


class _Phase(IntEnum):
    WATCHING = 0
    TURNING = 1
    DRIVING = 2


_TRIGGERS = {"alarm": Trigger.ALARM, "stall": Trigger.STALL, "random": Trigger.RANDOM, "self": Trigger.SELF}


class SimulatedOperator:
    """Implements `robotrl.interfaces.Operator` with an expert for hands.

    Args:
        spec: the environment's; `tool.x|y|z` of its state says where the tool is, or `left_tool.x|y|z` and so on.
        expert: drives.
        config: how the person behaves.
        worlds: N.
        seed: of the person's own chance (trigger "random").
    """

    def __init__(
        self, spec: EnvironmentSpec, expert: Expert, config: OperatorConfig, worlds: int, seed: int = 0
    ) -> None:
        self.config, self._spec, self._expert = config, spec, expert
        self._rng = seeds.generator(seed, "operator")
        self._tools = [i for i, e in enumerate(spec.state.elements) if e.endswith(("tool.x", "tool.y", "tool.z"))]
        self._joints = [spec.state.elements.index(e) for e in spec.action.elements if e in spec.state.elements]
        if config.trigger == "self" and len(self._joints) < spec.action.size:
            raise ConfigurationError(
                f"operator=self compares actions with measured values of the same names, which '{spec.task}' does not "
                "have: choose operator=alarm, stall or random"
            )
        self._phase, self._world, self._phase_ticks = _Phase.WATCHING, -1, 0
        self._driven_ticks = 0
        self._glance, self._glance_left, self._agreement = -1, 0, 0.0
        self._calls = np.zeros(worlds, np.int64)  # consecutive ticks of alarm
        self._waiting_since = np.full(worlds, np.iinfo(np.int64).max)
        self._quiet_until = np.zeros(worlds, np.int64)  # in the world's own ticks
        shape = worlds, max(1, self._ticks(config.stall_s)), len(self._tools)
        self._track = np.full(shape, np.nan, np.float32)
        self._wanted = np.zeros(spec.action.size, np.float32)
        self._last_joints = np.zeros(spec.action.size, np.float32)
        self._now = 0

    @property
    def driven_s(self) -> float:
        """Seconds of driving so far."""
        return self._driven_ticks / self._spec.control_hz

    @property
    def exhausted(self) -> bool:
        """Whether the driving budget is spent."""
        return self.driven_s >= self.config.budget_s

    def attend(self, observation: Observation, status: Status) -> Command:
        """One tick of the person: where they look, whether they drive, and with which targets."""
        self._now += 1
        self._forget(status)
        if self._world >= 0 and not status.running[self._world]:
            self._leave(observation)
        calling = self._calling(observation, status)
        if self._phase == _Phase.WATCHING and not self.exhausted:
            self._turn(calling)
        if self._phase == _Phase.TURNING and self._phase_ticks >= self._ticks(self.config.reaction_s):
            self._phase, self._phase_ticks = _Phase.DRIVING, 0
            rows = np.array([self._world])
            self._expert.reset(rows, status.seed[rows])
        if self._phase == _Phase.DRIVING and self._may_hand_back(status):
            self._leave(observation)
        return self._command(observation, calling)

    def _ticks(self, seconds: float) -> int:
        return round(seconds * self._spec.control_hz)

    def _forget(self, status: Status) -> None:
        """Clear what was known of worlds whose episode begins."""
        self._calls[status.started] = self._quiet_until[status.started] = 0
        self._track[status.started] = np.nan
        self._waiting_since[status.started | ~status.running] = np.iinfo(np.int64).max

    def _calling(self, observation: Observation, status: Status) -> Bool:
        """Worlds that want the person; they go on wanting until the person comes."""
        self._track = np.roll(self._track, -1, axis=1)
        self._track[:, -1] = observation.state[:, self._tools]
        if self.config.trigger == "alarm":
            self._calls = np.where(status.probability < self.config.alarm_below, self._calls + 1, 0)
            called = self._calls >= self.config.alarm_ticks
        elif self.config.trigger == "stall":
            extent = self._track.max(axis=1) - self._track.min(axis=1)  # NaN until the window is full
            called = np.linalg.norm(extent, axis=-1) < self.config.stall_m
        elif self.config.trigger == "random":
            rate = self.config.random_per_minute / 60 / self._spec.control_hz
            called = self._rng.random(len(self._track)) < rate
        else:
            called = self._disagrees(observation, status)
        called &= status.running & (observation.tick >= self._quiet_until)
        called[self._world if self._world >= 0 else []] = False
        waiting = called | ((self._waiting_since < self._now) & status.running)
        if self.exhausted:
            waiting[:] = False
        fresh = waiting & (self._waiting_since > self._now)
        self._waiting_since[fresh] = self._now
        self._waiting_since[~waiting] = np.iinfo(np.int64).max
        return waiting

    def _disagrees(self, observation: Observation, status: Status) -> Bool:
        """Look at one world after another; call when it moves against what the expert would do there."""
        called = np.zeros(len(status.running), bool)
        if self._phase != _Phase.WATCHING or not status.running.any():
            self._glance_left = 0
            return called
        joints = observation.state[:, self._joints]
        if self._glance_left == 0 or not status.running[self._glance] or status.started[self._glance]:
            after = np.flatnonzero(status.running)
            self._glance = int(after[after > self._glance][0]) if (after > self._glance).any() else int(after[0])
            self._glance_left, self._agreement = self._ticks(self.config.glance_s), 0.0
            self._expert.reset(np.array([self._glance]), status.seed[[self._glance]])
        else:
            moved = joints[self._glance] - self._last_joints
            self._agreement += float(moved @ self._wanted)
            self._glance_left -= 1
            called[self._glance] = self._glance_left == 0 and self._agreement <= 0
        target = self._expert.act(observation, np.array([self._glance]))[0]
        self._wanted, self._last_joints = target - joints[self._glance], joints[self._glance]
        return called

    def _turn(self, calling: Bool) -> None:
        """Turn to the world that has called longest."""
        if calling.any():
            self._world = int(np.argmin(np.where(calling, self._waiting_since, np.iinfo(np.int64).max)))
            self._phase, self._phase_ticks = _Phase.TURNING, 0
            self._waiting_since[self._world] = np.iinfo(np.int64).max
            calling[self._world] = False

    def _may_hand_back(self, status: Status) -> bool:
        long_enough = self._phase_ticks >= self._ticks(self.config.min_drive_s)
        return self.exhausted or (long_enough and bool(status.probability[self._world] > self.config.hand_back_above))

    def _leave(self, observation: Observation) -> None:
        """Hand the world back, or leave it because its episode ended."""
        self._quiet_until[self._world] = observation.tick[self._world] + self._ticks(self.config.rearm_s)
        self._calls[self._world] = 0
        self._track[self._world] = np.nan
        self._phase, self._world, self._phase_ticks = _Phase.WATCHING, -1, 0

    def _command(self, observation: Observation, calling: Bool) -> Command:
        n = len(calling)
        actions = np.zeros((n, self._spec.action.size), np.float32)
        active, orient = np.zeros(n, bool), np.zeros(n, bool)
        mode, trigger = np.full(n, ControlMode.AUTONOMOUS, np.uint8), np.full(n, Trigger.NONE, np.uint8)
        if self._world >= 0:
            trigger[self._world] = _TRIGGERS[self.config.trigger]
            self._phase_ticks += 1
            if self._phase == _Phase.DRIVING:
                row = np.array([self._world])
                active[row], mode[row] = True, ControlMode.CORRECTION
                actions[row] = self._expert.act(observation, row)
                self._driven_ticks += 1
            else:
                orient[self._world] = True
        suspend = calling if self.config.suspend_waiting else np.zeros(n, bool)
        return Command(mode, actions, active, trigger, orient, suspend)
