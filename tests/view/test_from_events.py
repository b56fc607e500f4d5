"""The report of a run, read from an event log that real parts wrote."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robotrl.control.gate import decide
from robotrl.critics.gate import CriticVerdict
from robotrl.errors import ConfigurationError, DataError
from robotrl.evaluate import Evaluation
from robotrl.events import EventLog
from robotrl.rundir import RunDirectory
from robotrl.view.from_events import report_of
from robotrl.view.report import headline, report_html
from robotrl.view.report_data import summary

CONFIG: Mapping[str, Any] = {
    "task": {"name": "insert", "robot": "panda"},
    "profile_name": "smoke",
    "seed": 0,
    "final_episodes": 200,
    "selector": {"draws": 16, "temperature": 0.5},
    "single": {"draws": 1, "temperature": 1.0},
}


def evaluation(successes: int, n: int = 200) -> dict[str, Any]:
    success = np.arange(n) * 7919 % n < successes
    found = Evaluation(
        np.arange(n), success, success, np.full(n, 100), {"success": successes, "timeout": n - successes}, 0, 0
    )
    return found.to_json() | {"control_steps": 100 * n}


def tally(episodes: int, operator_s: float = 0.0, takeovers: int = 0) -> dict[str, Any]:
    return {
        "episodes": episodes,
        "successes": episodes,
        "control_steps": 80 * episodes,
        "operator_s": operator_s,
        "orient_s": float(takeovers),
        "watch_s": 3 * operator_s,
        "takeovers": takeovers,
    }


def mass(demonstrations: float, corrections: float, failure_share: float = 0.0) -> dict[str, Any]:
    return {
        "failure_share": failure_share,
        "effective_share": 0.8,
        "demonstrations": demonstrations,
        "corrections": corrections,
        "autonomous": 0.0,
        "ticks": 2000,
        "histogram": [[0.0, 1.0, 1200], [1.0, 2.5, 800]],
    }


def stages() -> dict[str, dict[str, Any]]:
    champion, challenger = evaluation(110), evaluation(180)
    looks = [decide([c == "1" for c in champion["success"]], [c == "1" for c in challenger["success"]], 0, 1).to_json()]
    verdict = CriticVerdict(True, 0.05, 0.01, 0.09, 0.7, 0.0, 200, "", "the gain is above 0").to_json()
    bins = [{"count": 90, "predicted": 0.1, "observed": 0.0}, {"count": 110, "predicted": 0.9, "observed": 0.95}]
    found: dict[str, dict[str, Any]] = {
        "demonstrations": tally(28, operator_s=140.0),
        "base/labels": {"mass": mass(1.0, 0.0), "critic_gate": None},
        "base/evaluation": champion,
        "round-1/rollouts": tally(200),
        "round-1/critic": {"count": 200, "auc": 0.9, "brier": 0.1, "ece": 0.05, "bins": bins},
        "round-1/takeovers": tally(172, operator_s=120.0, takeovers=70),
        "round-1/labels": {"mass": mass(0.6, 0.4, failure_share=0.08), "critic_gate": verdict},
        "round-1/gate": looks[-1]
        | {"looks": looks, "champion_evaluation": champion, "challenger_evaluation": challenger},
    }
    for suffix in ("", "_single_draw"):
        for name, successes in (("before", 110), ("control", 118), ("after", 186)):
            found[f"final/{name}{suffix}"] = evaluation(successes)
    return found


def write(path: Path, done: Mapping[str, Mapping[str, Any]]) -> Path:
    with RunDirectory.open(path, CONFIG, "0123456789ab") as run:
        for stage, result in done.items():
            run.stage(stage, lambda result=result: result)
    return path


def only(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {name: result for name, result in stages().items() if name in names}


def test_a_finished_run_is_reported_in_full(tmp_path: Path) -> None:
    data = report_of(write(tmp_path / "run", stages()))
    assert data.complete
    assert [c.draws for c in data.comparisons] == [16, 1]
    assert data.comparisons[0].after.value == pytest.approx(0.93)
    assert [p.success.value for p in data.iterations] == pytest.approx([0.55, 0.9])
    assert (data.iterations[1].rollouts, data.iterations[1].operator_s) == (372, 120.0)
    assert data.gates[0][-1].decision == "promote"
    assert data.critics[0].used
    assert [m.iteration for m in data.mixtures] == [0, 1]
    assert report_html(data).count("<section>") == 8


def test_demonstrations_are_no_part_of_the_loops_price(tmp_path: Path) -> None:
    figures = summary(report_of(write(tmp_path / "run", stages())))
    assert figures["operator_s"] == pytest.approx(120.0)
    assert figures["watch_s"] == pytest.approx(360.0)


def test_a_run_that_has_only_begun_says_that_nothing_is_known_yet(tmp_path: Path) -> None:
    data = report_of(write(tmp_path / "run", only(["demonstrations", "base/labels"])))
    assert not data.complete
    assert "no final evaluation" in headline(data)
    report_html(data)


def test_a_run_killed_inside_a_stage_is_not_complete(tmp_path: Path) -> None:
    path = write(tmp_path / "run", only(["demonstrations"]))
    log = EventLog(path / "events.jsonl")
    log.append("stage_started", {"stage": "base/train"})
    log.close()
    assert not report_of(path).complete


def test_an_empty_run_is_reported(tmp_path: Path) -> None:
    report_html(report_of(write(tmp_path / "run", {})))


def test_failures_in_the_mixture_are_warned_of(tmp_path: Path) -> None:
    warnings = report_of(write(tmp_path / "run", stages())).warnings
    assert any("round-1/labels" in warning and "8%" in warning for warning in warnings)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a run directory"):
        report_of(tmp_path)


@pytest.mark.parametrize(
    ("stage", "field"), [("round-1/gate", "looks"), ("base/labels", "mass"), ("round-1/critic", "auc")]
)
def test_a_run_of_another_version_is_refused_by_name(tmp_path: Path, stage: str, field: str) -> None:
    older = stages()
    if field == "looks":
        older[stage]["looks"] = [{k: v for k, v in look.items() if k != "p_value"} for look in older[stage]["looks"]]
    else:
        del older[stage][field]
    with pytest.raises(DataError, match=r"events\.jsonl.*version"):
        report_of(write(tmp_path / "run", older))
