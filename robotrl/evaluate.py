"""Success of a policy on named seeds, episode by episode.

The same seed gives the same episode whatever the number of worlds, threads or companions in the batch, so two
evaluations on equal seeds are paired.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robotrl.errors import DataError
from robotrl.interfaces import Environment, Policy, Sink
from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.specs import EnvironmentSpec
from robotrl.stats import wilson_interval
from robotrl.types import Bool, Episode, Int64

Progress = Callable[[int, int], None]
"""Called with (done, total) episodes."""


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found; one element a seed, in the order of `seeds`.

    Attributes:
        seeds: (n,) int64. Starts that were already solved are left out and counted in `solved_starts`.
        success: (n,) bool, success at the end of the episode.
        success_once: (n,) bool, success at any tick.
        ticks: (n,) int64 length of the episode.
        reasons: why episodes ended → how often.
        starved_ticks: ticks for which no action was ready.
        checkpoints: sub-goal of the task → in how many episodes it held at some tick.
    """

    seeds: Int64
    success: Bool
    success_once: Bool
    ticks: Int64
    reasons: Mapping[str, int]
    starved_ticks: int
    solved_starts: int
    checkpoints: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def n(self) -> int:
        """Number of episodes that count."""
        return len(self.success)

    @property
    def rate(self) -> float:
        """Share of successes."""
        return float(self.success.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson 95 % interval of the success rate."""
        return wilson_interval(int(self.success.sum()), self.n)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the event log; `from_json` reads them back."""
        return {
            "seeds": self.seeds.tolist(),
            "success": "".join("01"[int(s)] for s in self.success),
            "success_once": "".join("01"[int(s)] for s in self.success_once),
            "ticks": self.ticks.tolist(),
            "control_steps": int(self.ticks.sum()),
            "reasons": dict(self.reasons),
            "starved_ticks": self.starved_ticks,
            "solved_starts": self.solved_starts,
            "checkpoints": dict(self.checkpoints),
            "rate": self.rate,
            "interval": list(self.interval),
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> "Evaluation":
        """Read back what `to_json` wrote."""
        return Evaluation(
            seeds=np.array(raw["seeds"], np.int64),
            success=np.array([c == "1" for c in raw["success"]], bool),
            success_once=np.array([c == "1" for c in raw["success_once"]], bool),
            ticks=np.array(raw["ticks"], np.int64),
            reasons=raw["reasons"],
            starved_ticks=raw["starved_ticks"],
            solved_starts=raw["solved_starts"],
            checkpoints=raw.get("checkpoints", {}),
        )

    def joined(self, other: "Evaluation") -> "Evaluation":
        """Both, in order, as one."""
        return Evaluation(
            seeds=np.concatenate([self.seeds, other.seeds]),
            success=np.concatenate([self.success, other.success]),
            success_once=np.concatenate([self.success_once, other.success_once]),
            ticks=np.concatenate([self.ticks, other.ticks]),
            reasons=dict(Counter(self.reasons) + Counter(other.reasons)),
            starved_ticks=self.starved_ticks + other.starved_ticks,
            solved_starts=self.solved_starts + other.solved_starts,
            checkpoints={name: count + other.checkpoints.get(name, 0) for name, count in self.checkpoints.items()},
        )


def evaluate(
    environment: Environment,
    policy: Policy,
    execution: Execution,
    seeds: Int64,
    name: str = "evaluation",
    sinks: tuple[Sink, ...] = (),
    progress: Progress | None = None,
) -> Evaluation:
    """Run one episode a seed and count.

    Args:
        environment: N worlds; N does not change the result.
        policy: a policy or selector.
        execution: how chunks are executed.
        seeds: (n,) starts, usually of a named range (`robotrl.seeds`).
        name: stage under which sinks see the episodes.
        sinks: receive every episode.
        progress: called after each episode.
    """
    spec = environment.spec
    found: dict[int, _Found] = {}
    for episode in Rollout(environment, policy, execution, Origin(run="", stage=name)).run(seeds):
        found[episode.meta.seed] = _Found.of(episode, spec)
        for sink in sinks:
            sink.on_episode(episode)
        if progress is not None:
            progress(len(found), len(seeds))
    solved = {seed for seed, result in found.items() if result.solved_start}
    kept = np.array([int(s) for s in seeds if int(s) not in solved], np.int64)
    if kept.size == 0:
        raise DataError(f"all {len(seeds)} starts were already solved: nothing to evaluate")
    results = [found[int(s)] for s in kept]
    return Evaluation(
        seeds=kept,
        success=np.array([r.success for r in results], bool),
        success_once=np.array([r.success_once for r in results], bool),
        ticks=np.array([r.ticks for r in results], np.int64),
        reasons=dict(sorted(Counter(r.reason for r in results).items())),
        starved_ticks=sum(r.starved_ticks for r in results),
        solved_starts=len(solved),
        checkpoints={name: sum(name in r.checkpoints for r in results) for name in spec.checkpoints},
    )


@dataclass(frozen=True)
class _Found:
    """What is kept of one episode."""

    success: bool
    success_once: bool
    ticks: int
    reason: str
    starved_ticks: int
    solved_start: bool
    checkpoints: frozenset[str]

    @staticmethod
    def of(episode: Episode, spec: EnvironmentSpec) -> "_Found":
        def column(checkpoint: str) -> int:
            return spec.privileged.elements.index(f"checkpoint.{checkpoint}")

        return _Found(
            success=episode.succeeded,
            success_once=bool(episode.success.any()),
            ticks=episode.length,
            reason=episode.meta.reason,
            starved_ticks=int(episode.starved.sum()),
            solved_start=episode.length <= spec.settle_ticks and bool(episode.success.all()),
            checkpoints=frozenset(name for name in spec.checkpoints if episode.privileged[:, column(name)].any()),
        )
