"""What the commands that work on a run do, given their composed configuration."""

import json
import shlex
from collections import Counter
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import cattrs
from omegaconf import DictConfig

from robotrl.configuration import CHANGES_NO_RESULT, plain
from robotrl.critics.gate import CriticVerdict
from robotrl.errors import ConfigurationError, RobotRLError
from robotrl.improve import ImproveConfig, Improvement
from robotrl.parts import Parts
from robotrl.progress import say
from robotrl.rollout.branching import BranchConfig
from robotrl.rundir import RunDirectory, read_config
from robotrl.stats import wilson_interval
from robotrl.steps import Steps
from robotrl.types import Episode, Int64
from robotrl.view.from_events import report_of
from robotrl.view.report import headline, row, write_report
from robotrl.view.report_data import summary
from robotrl.view.video import write_video

_FILMED = 4


def improve(config: DictConfig) -> None:
    """The whole loop, from demonstrations to the report."""
    settings = _settings(config, ImproveConfig, "improve")
    with _opened(config, settings.seed, settings.worlds, may_differ=CHANGES_NO_RESULT) as steps:
        Improvement(settings, steps).run()
        steps.record(config.recordings)
        found = report_of(steps.run.path)
        steps.run.write_text_atomic("summary.json", json.dumps(summary(found), indent=2) + "\n")
        path = write_report(steps.run.path / "report.html", found)
    say(f"\n{headline(found)}\n")
    for comparison in found.comparisons:
        say(f"  {row(comparison)}")
    if config.profile_name == "smoke":
        say(
            "\n  [yellow]profile=smoke[/yellow] trains far too little to learn anything: 0 % is expected. "
            "It shows that every stage runs here; without it the job takes minutes and learns."
        )
    say(f"\n  report  {path}\n  figures {steps.run.path / 'summary.json'}")
    say(f"  next    robotrl view {shlex.quote(str(config.run))}")


def collect(config: DictConfig) -> None:
    """Expert demonstrations."""
    with _opened(config, config.seed, config.worlds) as steps:
        stage = config.stage
        starts = steps.starts("train", config.episodes)
        result = steps.run.stage(stage, lambda: steps.demonstrate(stage, starts))
    say(
        f"  {result['successes']} of {result['episodes']} episodes succeeded, "
        f"{result['operator_s']:.0f} s of robot time"
    )
    say(f"  next    robotrl train {shlex.quote(str(config.run))}")


def train(config: DictConfig) -> None:
    """A policy from the demonstrations of a run."""
    with _opened(config, config.seed, 1) as steps:
        version = config.version
        steps.run.stage(f"labels-{version}", lambda: steps.label(f"version-{version}", "labels", _stages(steps)))
        result = steps.run.stage(
            f"train-{version}",
            lambda: steps.train(version, f"version-{version}", config.updates, config.start, {}),
        )
    say(f"  version {version} trained on {result['episodes']} episodes, loss {result['loss_last']:.4f}")
    say(f"  next    robotrl evaluate {shlex.quote(str(config.run))} version={version}")


def evaluate(config: DictConfig) -> None:
    """Success of one version on named seeds."""
    with _opened(config, config.seed, config.worlds) as steps:
        starts = steps.starts(config.seeds, config.episodes)
        found = steps.evaluate(config.version, "selector", starts, f"evaluate version {config.version}")
        if config.video:
            _film(steps, config.version, starts[:_FILMED])
    low, high = found.interval
    say(
        f"  success {found.rate:.1%} [{low:.1%}, {high:.1%}]  "
        f"n={found.n} {config.seeds} seeds, version {config.version}"
    )
    say(f"  ended by {', '.join(f'{reason} {count}' for reason, count in found.reasons.items())}")
    if found.checkpoints:
        reached = ", ".join(f"{name} {count / found.n:.0%}" for name, count in found.checkpoints.items())
        say(f"  reached at some tick: {reached}")
    say(
        f"  mean length {found.ticks.mean():.0f} ticks, {found.starved_ticks} starved, "
        f"{found.solved_starts} solved starts left out"
    )


def branch(config: DictConfig) -> None:
    """Continuations of a stored episode from one of its states."""
    how = _settings(config, BranchConfig, "branch")
    with _opened(config, config.seed, config.worlds) as steps:
        parent, found = steps.branch(how)
    wins = sum(episode.outcome == "success" for episode in found)
    low, high = wilson_interval(wins, len(found))
    say(
        f"  {parent.episode_id} ended with {parent.reason}; from tick {how.tick} "
        f"({how.tick / parent.control_hz:.1f} s) on, {wins} of {len(found)} succeeded [{low:.1%}, {high:.1%}]"
    )
    reasons = Counter(episode.reason for episode in found)
    say(f"  ended by {', '.join(f'{reason} {count}' for reason, count in sorted(reasons.items()))}")


def label(config: DictConfig) -> None:
    """Fit the critic to a run's autonomous episodes and write annotation columns."""
    with _opened(config, config.seed, 1) as steps:
        stages = _stages(steps)
        name = config.name
        rollouts = [s for s in stages if s.endswith("rollouts")]
        critic = name if rollouts else None
        if critic is not None:
            steps.run.stage(f"critic-{name}", lambda: steps.fit_critic(name, rollouts))
        result = steps.run.stage(f"labels-{name}", lambda: steps.label(name, "labels", stages, critic))
    mass = result["mass"]
    parts = ", ".join(f"{part} {mass[part]:.0%}" for part in ("demonstrations", "corrections", "autonomous"))
    say(f"  labels/{name}: {parts} of the sampled mass, {mass['failure_share']:.1%} from failures")
    if result["critic_gate"]:
        say(f"  critic gate: {CriticVerdict.in_words(result['critic_gate'])}")


@contextmanager
def _opened(config: DictConfig, seed: int, worlds: int, may_differ: Collection[str] | None = None) -> Generator[Steps]:
    """The run directory of `config`, held while the body works.

    A single step may join any run of its task; `improve` resumes only what it started with the same configuration.
    """
    parts, values, path = Parts(config), plain(config), Path(config.run)
    stored = read_config(path) if (path / "config.yaml").is_file() else {}
    free = {*values, *stored} if may_differ is None else may_differ
    with RunDirectory.open(path, values, parts.spec.fingerprint, may_differ=free) as run:
        yield Steps(parts, run, seed, worlds)


def _settings[T](config: DictConfig, kind: type[T], name: str) -> T:
    """The options of `config` that are the fields of `kind`, a dataclass; `name` begins errors."""
    values = {f.name: config[f.name] for f in fields(cast(Any, kind))}
    try:
        return cattrs.structure(values, kind)
    except cattrs.ClassValidationError as group:
        for error in group.exceptions:
            if isinstance(error, RobotRLError):
                raise error from None
        raise ConfigurationError("; ".join(cattrs.transform_error(group, name))) from None


def _stages(steps: Steps) -> list[str]:
    """Stages of the store's episodes, in order of name."""
    return sorted({entry.meta.stage for entry in steps.store.snapshot().entries})


class _Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []

    def on_episode(self, episode: Episode) -> None:
        """Keep it."""
        self.episodes.append(episode)

    def close(self) -> None:
        """Nothing to do."""


def _film(steps: Steps, version: int, starts: Int64) -> None:
    """Write an mp4 of every start, rendered from its physics states."""
    kept = _Kept()
    steps.evaluate(version, "selector", starts, "film", (kept,))
    for episode in kept.episodes:
        frames = steps.parts.film(episode)
        name = f"{version}-{episode.meta.seed}-{episode.meta.outcome}.mp4"
        path = write_video(frames, steps.run.path / "videos" / name, steps.parts.spec.control_hz)
        say(f"  video   {path}")
