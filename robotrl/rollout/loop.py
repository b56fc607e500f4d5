"""The loop: the only caller of `Environment.step`.

N worlds run episodes from a list of starts; a world whose episode ends takes the next start. The loop advances
all worlds to the next event of any of them — a chunk that arrives or is wanted, an episode that ends — and by
single ticks while a person watches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from robotrl import seeds
from robotrl.data.spill import SpillDirectory
from robotrl.errors import ConfigurationError
from robotrl.interfaces import Branching, Critic, Environment, EpisodicPolicy, Operator, Policy
from robotrl.rollout.clocks import Clock, VirtualClock
from robotrl.rollout.disturbance import Pushes
from robotrl.rollout.execution import ChunkExecutor, ExecutionMode, Synchronous
from robotrl.rollout.eyes import Eyes
from robotrl.rollout.film import Film
from robotrl.rollout.latency import LatencyModel, UniformLatency
from robotrl.rollout.recorder import Recorder
from robotrl.specs import EnvironmentSpec
from robotrl.types import (
    Bool,
    Branch,
    Command,
    Episode,
    EpisodeMeta,
    Float32,
    Int64,
    Observation,
    Status,
    Transition,
)


@dataclass(frozen=True)
class Execution:
    """How chunks are executed: the mode, s executed rows of each, and how long inference takes."""

    mode: ExecutionMode = field(default_factory=Synchronous)
    execute: int = 8
    latency: LatencyModel = field(default_factory=UniformLatency)


@dataclass(frozen=True)
class Origin:
    """Where a rollout's episodes come from, for their metadata and ids.

    `source` is "demonstration" or "autonomous" (it becomes "takeover" when a person drove); `solo` counts every
    tick as driven by the person, as a demonstration is.
    """

    run: str
    stage: str
    source: str = "autonomous"
    operator: str = ""
    solo: bool = False
    code: str = ""

    def episode_id(self, seed: int, branch: Branch | None = None) -> str:
        """Id of the episode that starts from `seed`, or goes on where `branch` says."""
        return seeds.episode_id(self.run, self.stage, seed, *(() if branch is None else (branch.key,)))


def hold_action(spec: EnvironmentSpec, state: Float32) -> Float32:
    """(n, A) targets that keep the robot where `state` (n, S) says it is: measured values of the same names.

    An element that is not measured, such as a step or a force, is 0.
    """
    hold = np.zeros((len(state), spec.action.size), np.float32)
    for column, name in enumerate(spec.action.elements):
        if name in spec.state.elements:
            hold[:, column] = state[:, spec.state.elements.index(name)]
    return spec.action.clip(hold)


class Rollout:
    """Runs episodes of `policy` in `environment`, under a person's eyes where there is an `operator`.

    Args:
        environment: N worlds of one task.
        policy: proposes the chunks.
        execution: how they are executed.
        origin: what the episodes are called.
        operator: may take over; the loop then advances by single ticks.
        critic: tells the operator each world's success probability.
        clock: paces ticks; simulated time when None.
        pushes: added to what is requested before it is executed; none when None.
        camera_every: render and keep the cameras' frames of every so many state rows; none when 0.
    """

    def __init__(
        self,
        environment: Environment,
        policy: Policy,
        execution: Execution,
        origin: Origin,
        operator: Operator | None = None,
        critic: Critic | None = None,
        clock: Clock | None = None,
        pushes: Pushes | None = None,
        camera_every: int = 0,
    ) -> None:
        self.environment, self.policy, self.execution, self.origin = environment, policy, execution, origin
        self.operator, self.critic = operator, critic
        self.spec = environment.spec
        self.clock = clock or VirtualClock(self.spec.control_hz)
        n = environment.worlds
        self.executor = ChunkExecutor(
            execution.mode,
            n,
            policy.chunk_length,
            execution.execute,
            self.spec.action.size,
            execution.latency.forecast,
            np.isin(self.spec.action.elements, self.spec.momentary),
        )
        self.recorder = Recorder(self.spec, n)
        self._pushes = pushes
        self._film = Film(n, camera_every) if camera_every else None
        self.spec.require_cameras(policy.cameras, "the policy")
        self._eyes = Eyes(n, policy.cameras)
        self._pushed = np.zeros((n, self.spec.horizon, self.spec.action.size), np.float32)
        self._seed = np.full(n, -1, np.int64)
        self._branch: list[Branch | None] = [None] * n
        self._instruction = [""] * n
        self._running = np.zeros(n, bool)
        self._started = np.zeros(n, bool)
        self._human = np.zeros(n, bool)
        self._chunk_count = np.zeros(n, np.int64)
        self._executed = np.zeros((n, self.spec.action.size), np.float32)
        self._history = np.zeros((n, policy.history, self.spec.state.size), np.float32)

    def run(self, starts: Sequence[int | Branch] | Int64, spill: SpillDirectory | None = None) -> Iterator[Episode]:
        """Yield the episodes of `starts` as they finish.

        With an operator whose budget is spent, remaining starts are not begun; running episodes finish.

        Args:
            starts: seeds, or states of stored episodes. Of one that goes on from such a state the first row is that
                state; its ticks in `meta` and `time_ns` count from the reset of the parent.
            spill: where running episodes log their ticks, so that a crash costs none but the last of them; nowhere
                when None. An `EpisodeWriter` has it as `spills`, and deletes an episode's log once it is committed.
        """
        if len(starts) == 0:
            raise ConfigurationError("no starts to roll out: expected at least one seed")
        queue = [s if isinstance(s, Branch) else int(s) for s in starts][::-1]
        observation = self._fill(queue, spill)
        loop_tick = 0
        while self._running.any():
            self.clock.pace(loop_tick)
            command, probability = self._consult(observation)
            moving = self._running if command is None else self._running & ~command.suspend
            transition = self._advance(observation, moving, command, probability)
            observation = transition.observation
            loop_tick += transition.valid.shape[1]
            yield from self._finished(transition)
            if queue and not self._running.all() and not (self.operator and self.operator.exhausted):
                observation = self._fill(queue, spill)

    def _fill(self, queue: list[int | Branch], spill: SpillDirectory | None) -> Observation:
        """Put idle worlds to the next starts."""
        rows = np.flatnonzero(~self._running)[: len(queue)]
        mask = np.zeros_like(self._running)
        mask[rows] = True
        observation = self._begin(rows, queue)
        self.recorder.begin(rows, observation)
        for row in rows:
            self._instruction[row] = observation.instruction[row]
            if spill is not None:
                self.recorder.spill(int(row), spill, self._meta(int(row), ""))
        self._executed[rows] = hold_action(self.spec, observation.state[rows])
        self._history[rows] = observation.state[rows, None]
        for row in rows:
            if (branch := self._branch[row]) is not None and branch.tick:
                self._executed[row] = branch.parent.action[branch.tick - 1]
                past = np.arange(branch.tick - self.policy.history, branch.tick) + 1
                self._history[row] = branch.parent.state[np.maximum(past, 0)]
        self.executor.new_epoch(rows, self._executed[rows])
        if self._pushes is not None:
            for row in rows:
                self._pushed[row] = self._pushes.path(self.spec, int(self._seed[row]))
        self._running[rows] = self._started[rows] = True
        self._human[rows] = False
        self._chunk_count[rows] = 0
        self._eyes.forget(rows)
        if isinstance(self.policy, EpisodicPolicy):
            self.policy.begin(rows, self._noise(rows))
        if self._film is None:
            return observation
        self._film.begin(rows, observation.tick[rows])
        observation = self._look(mask)
        self.recorder.frames(self._film.take(observation, mask))
        return observation

    def _begin(self, rows: Int64, queue: list[int | Branch]) -> Observation:
        """Reset the worlds `rows` (n,) to the seeds, or restore them to the states, that are next in the queue."""
        fresh = np.zeros_like(self._running)
        for row in rows:
            start = queue.pop()
            self._branch[row] = start if isinstance(start, Branch) else None
            self._seed[row] = start.parent.meta.seed if isinstance(start, Branch) else start
            fresh[row] = self._branch[row] is None
        observation = self.environment.reset(self._seed, fresh)
        for row in rows:
            if (branch := self._branch[row]) is not None:
                if not isinstance(self.environment, Branching):
                    kind = type(self.environment).__name__
                    raise ConfigurationError(f"{kind} cannot go on from stored states; MujocoEnvironment can")
                snapshot = self.environment.snapshot_of(branch)
                observation = self.environment.restore(snapshot, np.arange(len(fresh)) == row)
        return observation

    def _consult(self, observation: Observation) -> tuple[Command | None, Float32]:
        """Ask the critic and the operator, and open a new chunk epoch wherever control changes hands."""
        probability = np.full(len(self._running), np.nan, np.float32)
        if self.operator is None:
            return None, probability
        if self.critic is not None:
            probability = np.where(self._running, self.critic.value(observation.state), np.nan).astype(np.float32)
        command = self.operator.attend(observation, Status(probability, self._running, self._started, self._seed))
        self._started[:] = False
        changed = np.flatnonzero(command.active != self._human)
        if changed.size:
            self.executor.new_epoch(changed, self._executed[changed])
            self._human = command.active.copy()
        return command, probability

    def _advance(
        self, observation: Observation, moving: Bool, command: Command | None, probability: Float32
    ) -> Transition:
        """Ask for the chunks that are due, then step every moving world to the next event."""
        autonomous = moving & ~self._human
        self._propose(observation, self.executor.due(observation.tick, autonomous))
        ticks = 1 if command is not None else self.executor.ticks_to_event(observation.tick, autonomous)
        render = None
        if self._film is not None:
            ticks = min(ticks, self._film.ticks_to_frame(observation.tick, moving))
            render = self._film.due(observation.tick + ticks, moving)
        planned = self.executor.schedule(observation.tick, ticks, autonomous)
        actions = planned.actions
        if command is not None:
            actions = np.where(command.active[:, None, None], command.actions[:, None], actions)
        if self._pushes is not None:
            index = np.minimum(observation.tick[:, None] + np.arange(ticks), self.spec.horizon - 1)
            actions = actions + np.take_along_axis(self._pushed, index[..., None], axis=1)
        transition = self.environment.step(actions, moving, render)
        self.recorder.ticks(transition, planned, command, probability)
        if self._film is not None and render is not None:
            self._eyes.keep(transition.observation, render)
            self.recorder.frames(self._film.take(transition.observation, render))
        for k in range(ticks):
            rows = np.flatnonzero(transition.valid[:, k])
            self._history[rows, :-1] = self._history[rows, 1:]
            self._history[rows, -1] = transition.state[rows, k]
            self._executed[rows] = transition.actions[rows, k]
        return transition

    def _propose(self, observation: Observation, rows: Int64) -> None:
        """Ask the policy for the chunks of `rows`."""
        if rows.size == 0:
            return
        missing = self._eyes.missing(rows, observation.tick)
        if missing.any():
            self._look(missing)
        images = self._eyes.pictures(rows)
        seen = replace(replace(observation, images={}).take(rows), state=self._history[rows], images=images)
        committed = self.executor.committed(rows, observation.tick)
        chunk = self.policy.propose(seen, rows, committed, self._noise(rows))
        delays = [self.execution.latency.ticks(int(self._seed[r]), int(self._chunk_count[r])) for r in rows]
        self.executor.submit(chunk, np.array(delays, np.int64), self.recorder.chunk(chunk))
        self._chunk_count[rows] += 1

    def _noise(self, rows: Int64) -> list[np.random.Generator]:
        """Generators of the next chunks of `rows`: each (seed, chunk) has its own, and each branch of a seed."""
        keys = [(int(self._seed[r]), "chunk", int(self._chunk_count[r])) for r in rows]
        branches = [self._branch[r] for r in rows]
        return [seeds.generator(*k, *(() if b is None else (b.key,))) for k, b in zip(keys, branches, strict=True)]

    def _look(self, mask: Bool) -> Observation:
        """Draw the worlds in `mask` (N,) as they are. A reset draws nothing; a step in which no world moves does."""
        still = np.zeros((len(mask), 1, self.spec.action.size), np.float32)
        observation = self.environment.step(still, np.zeros_like(mask), render=mask).observation
        self._eyes.keep(observation, mask)
        return observation

    def _finished(self, transition: Transition) -> Iterator[Episode]:
        """Cut the episodes that ended in this step, in the order of their worlds."""
        ended = (transition.valid & (transition.terminated | transition.truncated)).any(axis=1)
        for row in np.flatnonzero(ended):
            self._running[row] = False
            episode = self.recorder.finish(int(row), self._meta(int(row), transition.failure[row]))
            if self._film is not None:
                episode = replace(episode, cameras=self._film.finish(int(row)))
            yield self._attributed(episode)

    def _meta(self, row: int, failure: str) -> EpisodeMeta:
        origin, seed, branch = self.origin, int(self._seed[row]), self._branch[row]
        return EpisodeMeta(
            episode_id=origin.episode_id(seed, branch),
            task=self.spec.task,
            instruction=self._instruction[row],
            seed=seed,
            stage=origin.stage,
            source=origin.source,
            outcome="failure" if failure else "success",
            reason=failure or "success",
            parent="" if branch is None else branch.parent.meta.episode_id,
            parent_tick=-1 if branch is None else branch.tick,
            operator=origin.operator,
            environment=self.spec.fingerprint,
            code=origin.code,
            control_hz=self.spec.control_hz,
        )

    def _attributed(self, episode: Episode) -> Episode:
        """Name the source: a takeover when a person drove, and whole episodes of a person count as driven."""
        if self.origin.solo:
            return replace(episode, meta=replace(episode.meta, operator_s=episode.length / self.spec.control_hz))
        if episode.intervention.any():
            return replace(episode, meta=replace(episode.meta, source="takeover"))
        return episode
