"""`robotrl sim play`: a task in real time, by the expert, a policy of a run, or at random."""

import itertools
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robotrl.configuration import compose_config, with_run_values
from robotrl.errors import ConfigurationError
from robotrl.interfaces import Environment, Policy
from robotrl.parts import Parts
from robotrl.progress import say
from robotrl.rollout.clocks import MonotonicClock
from robotrl.rollout.loop import Execution, Origin, Rollout, hold_action
from robotrl.seeds import seed_range
from robotrl.specs import EnvironmentSpec
from robotrl.terminal.parser import Parser, Subcommand, positive, whole
from robotrl.types import ActionChunk, Bool, Committed, Float32, Int64, Observation, Snapshot, Transition
from robotrl.view.live import LiveView

_BETWEEN_S = 0.5
"""How long an episode's end stays in sight."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="as 'robotrl sim ls' has it, such as sort or suites/metaworld")
    parser.add_argument("changes", metavar="name=value", nargs="*", help="other options, such as task.robot=so101")
    parser.add_argument("--by", metavar="WHO", default="expert", help="expert, random, or a run's directory (expert)")
    parser.add_argument("--version", type=whole(0), help="of the run's policy (the latest)")
    parser.add_argument("--seed", type=whole(0), default=0, help="of the first start (0)")
    parser.add_argument("--episodes", type=whole(0), default=0, help="how many; 0 goes on until Ctrl-C (0)")
    parser.add_argument("--speed", type=positive, default=1.0, help="times as fast as in reality (1)")
    parser.add_argument("--export", metavar="FILE.rrd", type=Path, help="write a Rerun recording, as fast as it goes")
    parser.add_argument("--web-port", type=whole(1), default=9090, help="of the page (9090)")
    parser.add_argument("--port", type=whole(1), default=9876, help="of what the page listens to (9876)")


def _play(options: Namespace) -> None:
    run = options.by if options.by not in ("expert", "random") else None
    config = compose_config("play", [f"task={options.task}", f"run={run or 'null'}", *options.changes])
    parts = Parts(config if run is None else with_run_values(config, [*options.changes, f"task={options.task}"]))
    if options.export is not None and not options.episodes:
        raise ConfigurationError("--export FILE.rrd needs --episodes N: how many to write")
    world = parts.environment(1)
    policy, execution = _player(parts, options.by, options.version)
    with LiveView(world.spec, options.export, options.web_port, options.port) as view:
        say(f"  {view.address}" + ("" if options.export else "\n  Ctrl-C ends it"))
        shown = Shown(world, view, None if options.export else options.speed)
        rollout = Rollout(shown, policy, execution, Origin("play", "play"))
        count = range(options.episodes) if options.episodes else itertools.count()
        try:
            for number in count:
                [episode] = rollout.run(seed_range("validation").block(1, options.seed + number))
                seconds = episode.length / world.spec.control_hz
                told = f"seed {options.seed + number}: {episode.meta.reason} after {seconds:.1f} s"
                view.say(told, "INFO" if episode.succeeded else "WARN")
                say(f"  {told} · {episode.meta.instruction}")
                if not options.export:
                    time.sleep(_BETWEEN_S)
        except KeyboardInterrupt:
            say("  ended")
    world.close()


def _player(parts: Parts, by: str, version: int | None) -> tuple[Policy, Execution]:
    """Who plays, and how their chunks are executed."""
    if by == "random":
        return RandomPolicy(parts.spec), Execution(execute=RandomPolicy.chunk_length)
    if by == "expert":
        if parts.config.task.expert is None:
            raise ConfigurationError(f"task '{parts.config.task.name}' has no expert: use --by random or --by RUN")
        return parts.demonstrator(1), Execution(execute=1)
    policies = Path(by) / "policies"
    found = sorted(int(p.name) for p in policies.glob("*") if p.name.isdecimal()) if policies.is_dir() else []
    if not found or (version is not None and version not in found):
        wanted = "a policy" if version is None else f"version {version}"
        raise ConfigurationError(f"--by {by}: expected {wanted} in {policies}, found {found or 'none'}")
    policy = parts.load_policy(policies / str(found[-1] if version is None else version))
    return parts.selector(policy), parts.execution()


class RandomPolicy:
    """Chunks that stray at random from where the robot is, within its bounds."""

    history, chunk_length, cameras, version = 1, 10, (), 0

    def __init__(self, spec: EnvironmentSpec) -> None:
        self._spec = spec
        self._step = (0.01 * (np.array(spec.action.high) - np.array(spec.action.low))).astype(np.float32)

    def propose(
        self, observation: Observation, rows: Int64, committed: Committed, rng: Sequence[np.random.Generator]
    ) -> ActionChunk:
        """See `Policy.propose`."""
        here = hold_action(self._spec, observation.state[:, -1])
        drawn = np.stack([r.standard_normal((self.chunk_length, self._spec.action.size), np.float32) for r in rng])
        actions = self._spec.action.clip(here[:, None] + self._step * np.cumsum(drawn, axis=1))
        return ActionChunk(rows, actions, observation.tick, self.version)


class Shown:
    """An environment of one world whose every tick is shown, `speed` times as fast as in reality; at once when None."""

    def __init__(self, world: Environment, view: LiveView, speed: float | None) -> None:
        self._world, self._view, self.spec, self.worlds = world, view, world.spec, world.worlds
        self._clock = MonotonicClock(world.spec.control_hz * speed) if speed else None
        self._ticks = 0
        names = world.spec.checkpoints
        self._checkpoints = {name: world.spec.privileged.elements.index(f"checkpoint.{name}") for name in names}
        # Where the scene is not known, its place is taken by pictures.
        self._draw = None if world.spec.scene.frames else np.ones(1, np.bool_)

    def reset(self, seeds: Int64, mask: Bool) -> Observation:
        """See `Environment.reset`."""
        observation = self._world.reset(seeds, mask)
        self._view.say(observation.instruction[0])
        return observation

    def step(self, actions: Float32, mask: Bool, render: Bool | None = None) -> Transition:
        """See `Environment.step`; returns when its last tick has been shown."""
        transition = self._world.step(actions, mask, render if self._draw is None else self._draw)
        images = {name: image[0] for name, image in transition.observation.images.items()}
        for k in np.flatnonzero(transition.valid[0]).tolist():
            if self._clock is not None:
                self._clock.pace(self._ticks)
            self._ticks += 1
            values = {"reward": float(transition.reward[0, k])}
            values |= {name: float(transition.privileged[0, k, at]) for name, at in self._checkpoints.items()}
            self._view.show(transition.physics[0, k], values, images)
        return transition

    def snapshot(self, mask: Bool) -> Snapshot:
        """See `Environment.snapshot`."""
        return self._world.snapshot(mask)

    def restore(self, snapshot: Snapshot, mask: Bool) -> Observation:
        """See `Environment.restore`."""
        return self._world.restore(snapshot, mask)

    def close(self) -> None:
        """See `Environment.close`."""
        self._world.close()


PLAY = Subcommand(
    "a task in real time, in the browser: by the expert, a policy, or at random",
    _arguments,
    "sort --by runs/mine --speed 0.5",
    _play,
)
