"""The loop, closed: demonstrations → policy → {rollouts, takeovers, critic, labels, retraining, gate} → evaluation.

Read `Improvement.run` from top to bottom: it is the whole job. Every stage leaves its result in the run's event
log; a stage that is there is not repeated, so an interrupted run goes on where it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from robotrl.control.gate import Verdict, decide
from robotrl.critics.gate import CriticVerdict
from robotrl.errors import ConfigurationError
from robotrl.evaluate import Evaluation
from robotrl.progress import say
from robotrl.seeds import seed_range
from robotrl.steps import Result, Steps

BASE = 0
ADVICE_BELOW = 0.5
"""From a weaker base, plain demonstrations are worth more than corrections (docs/results.md)."""


@dataclass(frozen=True)
class ImproveConfig:
    """How much of everything; the parts themselves are chosen by name.

    Attributes:
        seed: of training starts, initial weights and batches.
        demonstrations: expert episodes before the first training; `data` is an existing store to copy them from.
        rounds: of {rollouts, takeovers, labels, training, gate}.
        rollouts: autonomous episodes a round, from which the critic learns.
        watched: starts a round under the operator's eyes; fewer are begun when the budget is spent first.
        fleet: robots that the operator watches at once.
        worlds: simulated at once elsewhere; changes no result.
        base_updates, round_updates: gradient steps of the first training and of every round.
        base_episodes: episodes of the evaluation that decides the advice on more demonstrations.
        final_episodes: episodes of each final evaluation.
    """

    seed: int
    demonstrations: int
    data: str | None
    rounds: int
    rollouts: int
    watched: int
    fleet: int
    worlds: int
    base_updates: int
    round_updates: int
    base_episodes: int
    final_episodes: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and name != "seed" and value < 1:
                raise ConfigurationError(f"{name}={value}: expected at least 1")
        if not 0 <= self.seed < 1000:
            raise ConfigurationError(f"seed={self.seed}: expected 0..999")


class Improvement:
    """One run of the loop."""

    def __init__(self, config: ImproveConfig, steps: Steps) -> None:
        self.config, self.steps, self.run_directory = config, steps, steps.run
        self.labelled = ["demonstrations"]  # stages whose episodes train the next version

    def run(self) -> None:
        """Everything; the results are in the event log (`robotrl.view.from_events` reads them)."""
        self._stage("demonstrations", self._demonstrations)
        self._label("base", "base_labels")
        self._train("base", BASE, "base", self.config.base_updates, None, {})
        self._advise()

        champion = BASE
        for number in range(1, self.config.rounds + 1):
            self._generate(number, champion)
            self._label(f"round-{number}", "labels", critic=f"round-{number}")
            self._train(f"round-{number}", number, f"round-{number}", self.config.round_updates, champion, self._tune)
            champion = self._promote(number, champion, challenger=number)

        control = self.config.rounds + 1
        self._control(control)
        self._final({"before": BASE, "control": control, "after": champion})

    @property
    def _tune(self) -> Mapping[str, Any]:
        return dict(self.steps.parts.config.fine_tuning)

    def _demonstrations(self) -> Result:
        if self.config.data is not None:
            return self.steps.import_demonstrations("demonstrations", Path(self.config.data))
        return self.steps.demonstrate("demonstrations", self.steps.starts("train", self.config.demonstrations))

    def _advise(self) -> None:
        """Measure the base, single draws, and say so when more demonstrations would help more than corrections."""

        def measure() -> Result:
            starts = self.steps.starts("validation", self.config.base_episodes)
            return self.steps.evaluate(BASE, "single", starts, "evaluate the base").to_json()

        base = Evaluation.from_json(self._stage("base/evaluation", measure))
        low, high = base.interval
        say(f"  base {base.rate:.1%} [{low:.1%}, {high:.1%}] of {base.n} validation starts, single draws")
        if high < ADVICE_BELOW or base.rate < ADVICE_BELOW:
            say(
                "  [yellow]more demonstrations first:[/yellow] below about 50 % they are worth more than corrections; "
                f"try demonstrations={self.config.demonstrations * 2}"
            )

    def _generate(self, number: int, champion: int) -> None:
        """Autonomous rollouts, the critic they teach, and rollouts that a person watches with its help."""
        prefix, c = f"round-{number}", self.config
        rollouts, watched = f"{prefix}/rollouts", f"{prefix}/takeovers"
        starts = self.steps.starts("train", c.rollouts, block=10 * number)
        self._stage(rollouts, lambda: self.steps.roll_out(rollouts, champion, starts))
        self._stage(f"{prefix}/critic", lambda: self.steps.fit_critic(prefix, [rollouts]))
        self.labelled.append(rollouts)
        if self.steps.parts.operator(1, 0) is not None:
            starts = self.steps.starts("train", c.watched, block=10 * number + 5)
            result = self._stage(watched, lambda: self.steps.take_over(watched, champion, prefix, starts, c.fleet))
            driving, watching = result["operator_s"], result["watch_s"]
            say(f"  {result['takeovers']} takeovers, {driving:.0f} s driving, {watching:.0f} s watching")
            self.labelled.append(watched)

    def _promote(self, number: int, champion: int, challenger: int) -> int:
        """The champion of the next round: the challenger only if it is measurably better on `gate` seeds."""
        result = self._stage(f"round-{number}/gate", lambda: self._gate(number, champion, challenger))
        colour = "green" if result["decision"] == "promote" else "yellow"
        say(f"  gate: [{colour}]{result['decision']}[/{colour}] version {challenger}: {result['reason']}")
        return challenger if result["decision"] == "promote" else champion

    def _gate(self, number: int, champion: int, challenger: int) -> Result:
        """Look, and look again at more seeds while undecided; outcomes go into the log, so that it can be re-run."""
        gate = self.steps.parts.gate()
        found: dict[str, Evaluation] = {}
        looks: list[Result] = []
        verdict: Verdict | None = None
        for look, total in enumerate(gate.looks):
            done = found["champion"].n if found else 0
            starts = seed_range("gate").block(total - done, offset=number * 10_000 + done)
            for name, version in (("champion", champion), ("challenger", challenger)):
                new = self.steps.evaluate(version, "selector", starts, f"gate: {name} {version}")
                found[name] = found[name].joined(new) if name in found else new
            verdict = decide(found["champion"].success, found["challenger"].success, look, number, gate)
            looks.append(verdict.to_json())
            if verdict.decision != "extend":
                break
        if verdict is None:
            raise ConfigurationError("gate.looks is empty: expected at least one number of seeds")
        steps = sum(int(e.ticks.sum()) for e in found.values())
        evidence = {f"{name}_evaluation": e.to_json() for name, e in found.items()}
        return {
            **verdict.to_json(),
            "looks": looks,
            "versions": [champion, challenger],
            "control_steps": steps,
            **evidence,
        }

    def _control(self, version: int) -> None:
        """The base trained on as long as the challengers were, on no new data."""
        start = BASE
        for number in range(1, self.config.rounds + 1):
            last = number == self.config.rounds
            made = version if last else version + number
            self._train(f"control-{number}", made, "base", self.config.round_updates, start, self._tune)
            start = made

    def _final(self, versions: Mapping[str, int]) -> None:
        """Before, control and after on `final` seeds: as deployed, and with single draws."""
        starts = seed_range("final").block(self.config.final_episodes)
        for selector, suffix in (("selector", ""), ("single", "_single_draw")):
            for name, version in versions.items():
                stage = f"final/{name}{suffix}"
                measure = partial(self.steps.evaluate, version, selector, starts, stage)
                self._stage(stage, lambda measure=measure, version=version: {"version": version, **measure().to_json()})

    def _label(self, name: str, labels: str, critic: str | None = None) -> None:
        stages = list(self.labelled)
        result = self._stage(f"{name}/labels", lambda: self.steps.label(name, labels, stages, critic))
        if result["critic_gate"]:
            say(f"  critic gate: {CriticVerdict.in_words(result['critic_gate'])}")

    def _train(
        self, stage: str, version: int, labels: str, updates: int, start: int | None, learner: Mapping[str, Any]
    ) -> None:
        self._stage(f"{stage}/train", lambda: self.steps.train(version, labels, updates, start, learner))

    def _stage(self, name: str, function: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        known = self.run_directory.events.completed(name) is not None
        if not known:
            say(f"[bold]{name}[/bold]")
        result = self.run_directory.stage(name, function)
        if known:
            say(f"[dim]{name} (done before)[/dim]")
        return result
