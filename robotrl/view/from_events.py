"""A run's report from its event log and configuration alone, finished or not."""

import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from cattrs import ClassValidationError, structure, transform_error

from robotrl.control.gate import Verdict
from robotrl.errors import DataError
from robotrl.evaluate import Evaluation
from robotrl.events import read_events, stage_results
from robotrl.rundir import read_config
from robotrl.stats import paired_difference, wilson_interval
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

_PACKAGES = ("robotrl", "mujoco", "torch", "numpy", "zarr")
_DRIFT = 0.10
"""A control that gains more than this shows that the base was not trained to the end."""


def report_of(run: Path) -> ReportData:
    """What the run directory `run` has to say.

    Raises `ConfigurationError` when it is none, `DataError` when its events lack what this version reads.
    """
    config = read_config(run)
    try:
        return _report(run, config)
    except (KeyError, ClassValidationError) as error:
        raise DataError(
            f"{run / 'events.jsonl'}: the results of a stage are not as this version of robotrl writes them "
            f"({transform_error(error) if isinstance(error, ClassValidationError) else error}). "
            "Report it with the version that ran it, or run it again in another directory."
        ) from error


def _report(run: Path, config: Mapping[str, Any]) -> ReportData:
    events = read_events(run / "events.jsonl")
    done = stage_results(events)
    results = {stage: payload["result"] for stage, payload in done.items()}
    comparisons = _comparisons(results, config)
    return ReportData(
        task=config["task"]["name"],
        robot=config["task"]["robot"],
        run=str(run),
        finished=f"{events[-1].time[:16].replace('T', ' ')} UTC" if events else "",
        complete="final/after_single_draw" in results,
        comparisons=comparisons,
        iterations=_iterations(results),
        critics=tuple(_critic(i, results) for i in _rounds(results, "critic") if f"round-{i}/labels" in results),
        mixtures=_mixtures(results),
        gates=tuple(_looks(results[f"round-{i}/gate"]) for i in _rounds(results, "gate")),
        operator=_operator(results),
        stages=tuple(StageTime(stage, payload["wall_s"], payload["cpu_s"]) for stage, payload in done.items()),
        recordings=tuple(sorted(path.name for path in (run / "rerun").glob("*.rrd"))),
        reproduction=_reproduction(run, config),
        warnings=_warnings(results, comparisons),
        control_steps=sum(r.get("control_steps", 0) for r in results.values()),
        wall_s=sum(payload["wall_s"] for payload in done.values()),
        cpu_s=sum(payload["cpu_s"] for payload in done.values()),
    )


def _rate(success: Sequence[bool]) -> Rate:
    return Rate.of(sum(success), len(success))


def _rounds(results: Mapping[str, Any], step: str) -> list[int]:
    """Numbers of the rounds that have completed `step`."""
    names = (stage.split("/") for stage in results if stage.startswith("round-") and stage.endswith(f"/{step}"))
    return sorted(int(name[0].removeprefix("round-")) for name in names)


def _comparisons(results: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[Comparison, ...]:
    """Before, control and after: as deployed, then with single draws."""
    found: list[Comparison] = []
    for suffix, selector in (("", "selector"), ("_single_draw", "single")):
        names = {name: f"final/{name}{suffix}" for name in ("before", "control", "after")}
        if not all(stage in results for stage in names.values()):
            continue
        runs = {name: Evaluation.from_json(results[stage]) for name, stage in names.items()}
        pair = paired_difference(runs["control"].success, runs["after"].success)
        rates = {name: _rate(run.success.tolist()) for name, run in runs.items()}
        draws, temperature = config[selector]["draws"], config[selector]["temperature"]
        found.append(Comparison(draws, rates["before"], rates["after"], rates["control"], pair, temperature))
    return tuple(found)


def _iterations(results: Mapping[str, Any]) -> tuple[IterationPoint, ...]:
    """The policy in use after each round, on that round's gate starts, with what had been spent by then."""
    points: list[IterationPoint] = []
    rollouts, operator_s = 0, 0.0
    for i in _rounds(results, "gate"):
        gate = results[f"round-{i}/gate"]
        if i == 1:
            champion = Evaluation.from_json(gate["champion_evaluation"])
            points.append(IterationPoint(0, _rate(champion.success.tolist()), 0, 0.0))
        for step in ("rollouts", "takeovers"):
            tally = results.get(f"round-{i}/{step}", {"episodes": 0, "operator_s": 0.0})
            rollouts, operator_s = rollouts + tally["episodes"], operator_s + tally["operator_s"]
        kept = "challenger" if gate["decision"] == "promote" else "champion"
        run = Evaluation.from_json(gate[f"{kept}_evaluation"])
        points.append(IterationPoint(i, _rate(run.success.tolist()), rollouts, operator_s))
    return tuple(points)


def _critic(number: int, results: Mapping[str, Any]) -> CriticReport:
    fitted, verdict = results[f"round-{number}/critic"], results[f"round-{number}/labels"]["critic_gate"]
    bins = tuple(
        CalibrationBin(b["predicted"], b["observed"], *_observed_interval(b), count=b["count"]) for b in fitted["bins"]
    )
    improvement = Estimate(*(_number(verdict[key]) for key in ("gain", "low", "high")))
    return CriticReport(
        iteration=number,
        used=verdict["usable"],
        reason=verdict["reason"],
        auc=_number(fitted["auc"]),
        brier=_number(fitted["brier"]),
        ece=_number(fitted["ece"]),
        bins=bins,
        improvement=improvement,
        effective_share=_number(verdict["effective_share"]),
    )


def _observed_interval(raw: Mapping[str, Any]) -> tuple[float, float]:
    return wilson_interval(round(raw["observed"] * raw["count"]), raw["count"])


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _mixtures(results: Mapping[str, Any]) -> tuple[Mixture, ...]:
    """What every training sampled from; 0 is the base."""
    stages = [(0, "base/labels"), *((i, f"round-{i}/labels") for i in _rounds(results, "labels"))]
    return tuple(_mixture(i, results[stage]["mass"]) for i, stage in stages if stage in results)


def _mixture(number: int, mass: Mapping[str, Any]) -> Mixture:
    sources = tuple((name, mass[name]) for name in ("demonstrations", "corrections", "autonomous"))
    bars = tuple((low, high, count) for low, high, count in mass["histogram"])
    return Mixture(number, sources, mass["ticks"], mass["effective_share"], mass["failure_share"], weights=bars)


def _looks(result: Mapping[str, Any]) -> tuple[Verdict, ...]:
    return tuple(structure(look, Verdict) for look in result["looks"])


def _operator(results: Mapping[str, Any]) -> tuple[OperatorUse, ...]:
    """Stages in which a person drove."""
    return tuple(
        OperatorUse(
            stage=stage,
            episodes=r["episodes"],
            takeovers=r["takeovers"],
            driving_s=r["operator_s"],
            orientation_s=r["orient_s"],
            watching_s=r["watch_s"],
            demonstration=stage == "demonstrations",
        )
        for stage, r in results.items()
        if r.get("operator_s", 0) > 0
    )


def _reproduction(run: Path, config: Mapping[str, Any]) -> Reproduction:
    command = (
        f"robotrl improve task={config['task']['name']} profile={config['profile_name']} "
        f"seed={config['seed']} run={shlex.quote(str(run))}"
    )
    seeds = (
        ("training", f"train, block of run seed {config['seed']}"),
        ("gate", "gate, a new block every round"),
        ("comparison", f"final, the first {config['final_episodes']}"),
    )
    return Reproduction(command, seeds, tuple((name, version(name)) for name in _PACKAGES))


def _warnings(results: Mapping[str, Any], comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What a reader should know before believing the headline."""
    found: list[str] = []
    for comparison in comparisons:
        if comparison.control is None:
            continue
        drift = comparison.control.value - comparison.before.value
        if drift > _DRIFT:
            found.append(
                f"The control gained {drift:.0%} points without new data (draws: {comparison.draws}): the base was not "
                "trained to the end. Raise base_updates before comparing."
            )
    for stage, result in results.items():
        share = result.get("mass", {}).get("failure_share", 0.0) if stage.endswith("/labels") else 0.0
        if share > 0.05:
            found.append(f"{stage}: {share:.0%} of the sampled mass are ticks of failures; above 5 % predicts a loss.")
    base = results.get("base/evaluation")
    if base is not None and np.mean([c == "1" for c in base["success"]]) < 0.5:
        found.append("The base succeeds in fewer than half of its episodes: more demonstrations first.")
    return tuple(found)
