"""A complete report with hostile names, for the report's tests."""

import math

from robotrl.control.gate import decide
from robotrl.stats import paired_difference
from robotrl.view.report_data import (
    CalibrationBin,
    Comparison,
    CriticReport,
    Estimate,
    IterationPoint,
    Mixture,
    OperatorUse,
    Rate,
    ReportData,
    Reproduction,
    StageTime,
)

HOSTILE = "<script>alert('x')</script> & \"quotes\""


def _series(successes: int, n: int = 400) -> list[bool]:
    return [i * 7919 % n < successes for i in range(n)]


def comparison(draws: int = 16, before: int = 228, control: int = 245, after: int = 377) -> Comparison:
    """Success counts of 400 starts, paired."""
    difference = paired_difference(_series(control), _series(after))
    return Comparison(draws, Rate.of(before, 400), Rate.of(after, 400), Rate.of(control, 400), difference)


def _bins() -> tuple[CalibrationBin, ...]:
    counts = (90, 30, 18, 12, 11, 15, 21, 40, 90, 220)
    rates = [Rate.of(round(n * (i + 0.5) / 10), n) for i, n in enumerate(counts)]
    return tuple(CalibrationBin((i + 0.5) / 10, r.value, r.low, r.high, r.n) for i, r in enumerate(rates))


def complete() -> ReportData:
    """A finished run of two iterations with every part there is."""
    champion, challenger = _series(114, 200), _series(177, 200)
    return ReportData(
        task="insert",
        robot="panda",
        run="runs/peg",
        finished="2026-11-30",
        comparisons=(comparison(), comparison(draws=1, after=362)),
        iterations=(
            IterationPoint(0, Rate.of(112, 200), 0, 0.0),
            IterationPoint(1, Rate.of(177, 200), 372, 118.4),
            IterationPoint(2, Rate.of(188, 200), 790, 236.2),
        ),
        critics=(
            CriticReport(
                1, True, "The lower end is above 0.", 0.86, 0.12, 0.04, _bins(), Estimate(0.06, 0.02, 0.1), 0.6
            ),
            CriticReport(2, False, HOSTILE, math.nan, math.nan, math.nan),
        ),
        mixtures=(
            Mixture(0, (("demonstrations", 1.0),), 2840, 1.0, 0.0),
            Mixture(1, (("demonstrations", 0.6), (HOSTILE, 0.4)), 5208, 0.61, 0.031),
            Mixture(2, (("demonstrations", 1.0),), 2840, 0.5, 0.0, weights=((0, 1, 2000), (1, 2, 840))),
        ),
        gates=(
            (decide(champion, challenger, 0, 1),),
            (decide(challenger, challenger, 0, 2),),
        ),
        operator=(
            OperatorUse("demonstrations", 28, 0, 142.2, 0.0, 0.0, demonstration=True),
            OperatorUse("round-1", 172, 71, 118.4, 71.0, 412.0),
            OperatorUse("round-2", 218, 83, 117.8, 83.0, 508.0),
        ),
        stages=(StageTime("train", 131.0, 250.0), StageTime("gate", 49.0, 95.0)),
        recordings=("round-1-success-1000000-3fa9c11b.rrd",),
        reproduction=Reproduction("robotrl improve seed=0", (("training seed", "0"),), (("mujoco", "3.8.1"),)),
        warnings=(HOSTILE,),
        control_steps=184320,
        wall_s=611.4,
        cpu_s=1124.0,
    )
