"""What a report says, as plain values: all rates are fractions, all times seconds.

Every part may be missing (an empty tuple or None); the report leaves its section out.
"""

import math
from dataclasses import dataclass

from robotrl.control.gate import Verdict
from robotrl.stats import PairedDifference, wilson_interval


@dataclass(frozen=True)
class Rate:
    """A success rate over `n` episodes with its Wilson 95 % interval [`low`, `high`]."""

    value: float
    low: float
    high: float
    n: int

    @staticmethod
    def of(successes: int, n: int) -> "Rate":
        """The rate of `successes` among `n` ≥ 1 episodes."""
        return Rate(successes / n, *wilson_interval(successes, n), n)


@dataclass(frozen=True)
class Estimate:
    """A difference of success rates with its 95 % interval [`low`, `high`]."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """The same `final` starts before, under the control, and after, with one selector.

    `draws` is how many action chunks the selector averages; 1 is a single draw. `temperature` scales their noise.
    """

    draws: int
    before: Rate
    after: Rate
    control: Rate | None = None
    over_control: PairedDifference | None = None
    temperature: float = 1.0

    @property
    def selector(self) -> str:
        """The selector in words."""
        draws = "a single draw of each action chunk" if self.draws == 1 else f"the mean of {self.draws} action chunks"
        return draws if self.temperature == 1 else f"{draws} at temperature {self.temperature:g}"


@dataclass(frozen=True)
class IterationPoint:
    """The policy in use after one iteration (0 is the base), with what had been spent in all by then."""

    iteration: int
    success: Rate
    rollouts: int
    operator_s: float


@dataclass(frozen=True)
class CalibrationBin:
    """Held-out states whose predicted success probability is near `predicted`; [`low`, `high`] is a Wilson interval."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class CriticReport:
    """A fitted critic on held-out episodes, and whether the gate lets its weights be used.

    `improvement` is the held-out estimate of what the weights gain; `effective_share` the effective sample size as a
    share of the samples; `reason` is the gate's sentence.
    """

    iteration: int
    used: bool
    reason: str
    auc: float
    brier: float
    ece: float
    bins: tuple[CalibrationBin, ...] = ()
    improvement: Estimate | None = None
    effective_share: float = float("nan")


@dataclass(frozen=True)
class Mixture:
    """What one round of training sampled from; iteration 0 is the base.

    Attributes:
        sources: name of the source and its share of the sampling mass.
        ticks: that can be sampled at all.
        effective_share: effective sample size (Kish) as a share of `ticks`.
        failure_share: mass of the policy's own ticks in failed episodes; above `warn_share` it is warned of, above
            `refuse_share` training is refused.
        weights: a histogram of weights as multiples of their mean: (low, high, number of ticks).
    """

    iteration: int
    sources: tuple[tuple[str, float], ...]
    ticks: int
    effective_share: float
    failure_share: float
    warn_share: float = 0.05
    refuse_share: float = 0.15
    weights: tuple[tuple[float, float, int], ...] = ()


@dataclass(frozen=True)
class OperatorUse:
    """What one stage took of the person: seconds of driving, of turning to a robot, and of watching.

    `demonstration` marks the whole demonstrations that a run begins with, which are no part of the loop's price.
    """

    stage: str
    episodes: int
    takeovers: int
    driving_s: float
    orientation_s: float
    watching_s: float
    demonstration: bool = False


@dataclass(frozen=True)
class StageTime:
    """What one stage cost: wall-clock and processor seconds."""

    name: str
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Reproduction:
    """How to get the same figures: the command, and named seeds and versions."""

    command: str
    seeds: tuple[tuple[str, str], ...] = ()
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ReportData:
    """All that `report.html` and `summary.json` say about a run.

    Attributes:
        comparisons: the one the headline is about comes first.
        gates: one entry an iteration, all of its looks in order.
        finished: when the last event happened, as text.
        complete: whether the run got to its end; one that did not may be running or interrupted.
        wall_s, cpu_s: of the whole run.
    """

    task: str
    robot: str
    run: str
    finished: str = ""
    complete: bool = True
    comparisons: tuple[Comparison, ...] = ()
    iterations: tuple[IterationPoint, ...] = ()
    critics: tuple[CriticReport, ...] = ()
    mixtures: tuple[Mixture, ...] = ()
    gates: tuple[tuple[Verdict, ...], ...] = ()
    operator: tuple[OperatorUse, ...] = ()
    stages: tuple[StageTime, ...] = ()
    recordings: tuple[str, ...] = ()
    reproduction: Reproduction | None = None
    warnings: tuple[str, ...] = ()
    control_steps: int = 0
    wall_s: float = float("nan")
    cpu_s: float = float("nan")

    @property
    def driving_s(self) -> float:
        """Seconds that people drove, the demonstrations apart."""
        return sum(use.driving_s for use in self.operator if not use.demonstration)

    @property
    def watching_s(self) -> float:
        """Seconds that people watched, the demonstrations apart."""
        return sum(use.watching_s for use in self.operator if not use.demonstration)


def summary(data: ReportData) -> dict[str, float | int | None]:
    """The run's figures under the keys of `summary.json`; what is missing is None.

    Keys of the averaged selector have no suffix, those of the single draw end in `_single_draw`.
    """
    figures: dict[str, float | int | None] = {}
    for suffix, wanted in (("", lambda draws: draws > 1), ("_single_draw", lambda draws: draws == 1)):
        found = next((c for c in data.comparisons if wanted(c.draws)), None)
        gain = found.over_control if found else None
        figures |= {
            f"before{suffix}": found.before.value if found else None,
            f"control{suffix}": found.control.value if found and found.control else None,
            f"after{suffix}": found.after.value if found else None,
            f"over_control{suffix}": gain.difference if gain else None,
            f"over_control_low{suffix}": gain.low if gain else None,
            f"over_control_high{suffix}": gain.high if gain else None,
        }
    figures["n"] = data.comparisons[0].after.n if data.comparisons else 0
    figures["operator_s"] = data.driving_s
    figures["watch_s"] = data.watching_s
    figures["control_steps"] = data.control_steps
    figures["cpu_s"] = data.cpu_s
    figures["wall_s"] = data.wall_s
    return {key: value if value is not None and math.isfinite(value) else None for key, value in figures.items()}
