"""How to spend a person's seconds: recipes side by side, from one base a seed, at equal rollouts and updates.

    uv run python benchmarks/recipes.py --seeds 0 1 2 --json

Every recipe goes on from the same base for the same number of updates. Recipes with a person spend the same seconds of
driving. Every fine-tuning is run twice with different batches and noise: the spread between the two is what chance
alone does, and differences smaller than it mean nothing. Evaluation starts are shared, so differences are paired.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# Python puts this folder first, where sim.py would hide the package `sim`: move it to the end.
sys.path.sort(key=lambda folder: Path(folder).resolve() == Path(__file__).resolve().parent)

import numpy as np

from robotrl.configuration import CHANGES_NO_RESULT, compose_config, plain
from robotrl.evaluate import Evaluation
from robotrl.improve import BASE
from robotrl.parts import Parts
from robotrl.progress import say
from robotrl.rundir import RunDirectory
from robotrl.stats import paired_difference
from robotrl.steps import Result, Steps
from robotrl.types import Int64

REFERENCE = "more demonstrations"


@dataclass(frozen=True)
class Recipe:
    """What one row trains on: `labels` over the base's demonstrations and the stages in `data`."""

    name: str
    labels: str
    data: tuple[str, ...]


RECIPES = (
    Recipe("no new data", "demonstrations", ()),
    Recipe("successes only", "successes", ("rollouts",)),
    Recipe(REFERENCE, "demonstrations", ("more-demonstrations",)),
    Recipe("interventions only", "interventions", ("takeovers-alarm",)),
    Recipe("full loop", "corrections", ("rollouts", "takeovers-alarm")),
    Recipe("random takeovers", "corrections", ("rollouts", "takeovers-random")),
)


class Comparison:
    """All recipes from the base of one seed; resumable like any run."""

    def __init__(self, seed: int, root: Path, overrides: list[str]) -> None:
        self.overrides, self.path, self.seed = overrides, root / f"recipes-{seed}", seed
        self.config = self.compose()
        spec = Parts(self.config).spec
        self.run = RunDirectory.open(self.path, plain(self.config), spec.fingerprint, may_differ=CHANGES_NO_RESULT)

    def compose(self, *extra: str):
        return compose_config("improve", [f"seed={self.seed}", f"run={self.path}", *self.overrides, *extra])

    def steps(self, *extra: str) -> Steps:
        """The steps with other parts, on the same run."""
        return Steps(Parts(self.compose(*extra)), self.run, self.seed, self.config.worlds)

    def stage(self, name: str, function):
        say(f"seed {self.seed}: {name}")
        return self.run.stage(name, function)

    def base(self) -> Result:
        """The base from demonstrations; returns what recording them took."""
        c, steps = self.config, self.steps()
        demos = steps.starts("train", c.demonstrations)
        took = self.stage("demonstrations", lambda: steps.demonstrate("demonstrations", demos))
        self.stage("base/labels", lambda: steps.label("base", "base_labels", ["demonstrations"]))
        self.stage("base/train", lambda: steps.train(BASE, "base", c.base_updates, None, {}))
        return took

    def collect(self) -> None:
        """Every recipe's data: rollouts, takeovers, and demonstrations for the same seconds."""
        c, steps, base = self.config, self.steps(), self.base()
        starts = steps.starts("train", c.rollouts, block=10)
        self.stage("rollouts", lambda: steps.roll_out("rollouts", BASE, starts))
        self.stage("critic", lambda: steps.fit_critic("base", ["rollouts"]))
        watched = steps.starts("train", c.watched, block=15)
        for trigger in ("alarm", "random"):
            own, name = self.steps(f"operator={trigger}"), f"takeovers-{trigger}"
            self.stage(name, lambda o=own, n=name: o.take_over(n, BASE, "base", watched, c.fleet))
        seconds = c.operator.config.budget_s
        more = round(seconds / (base["operator_s"] / base["episodes"]))
        again = steps.starts("train", more, block=1)
        self.stage("more-demonstrations", lambda: steps.demonstrate("more-demonstrations", again))

    def measure(self, repeats: int, episodes: int, selector: str) -> dict[str, list[Evaluation]]:
        """Fine-tune every recipe `repeats` times and evaluate on the same starts."""
        found: dict[str, list[Evaluation]] = {}
        version = 0
        starts = self.steps().starts("final", episodes)
        for recipe in RECIPES:
            steps, key = self.steps(f"labels={recipe.labels}"), recipe.name.replace(" ", "-")
            stages, critic = ["demonstrations", *recipe.data], "base" if "rollouts" in recipe.data else None
            self.stage(f"{key}/labels", lambda s=steps, k=key, d=stages, c=critic: s.label(k, "labels", d, c))
            for _ in range(repeats):
                version += 1
                tune = steps.parts.config.fine_tuning
                fit = partial(steps.train, version, key, self.config.round_updates, BASE, tune)
                self.stage(f"{key}/train-{version}", fit)
                look = partial(self.look, steps, version, selector, starts)
                raw = self.stage(f"{key}/evaluation-{version}-{selector}", look)
                found.setdefault(recipe.name, []).append(Evaluation.from_json(raw))
        look = partial(self.look, self.steps(), BASE, selector, starts)
        base = self.stage(f"base/evaluation-{selector}", look)
        return {"base": [Evaluation.from_json(base)], **found}

    @staticmethod
    def look(steps: Steps, version: int, selector: str, starts: Int64) -> Result:
        """Success of a version, as the event log keeps it."""
        return steps.evaluate(version, selector, starts, f"evaluate {version}").to_json()


def row(name: str, found: dict[str, list[Evaluation]]) -> dict[str, float]:
    """Mean success of a recipe's repeats, their spread, and the paired difference to plain demonstrations."""
    rates = [e.rate for e in found[name]]
    reference, own = (np.concatenate([e.success for e in found[n]]) for n in (REFERENCE, name))
    count = min(len(reference), len(own))
    pair = paired_difference(reference[:count], own[:count])
    spread = max(rates) - min(rates)
    return {
        "success": float(np.mean(rates)),
        "spread": spread,
        "over_demos": pair.difference,
        "low": pair.low,
        "high": pair.high,
    }


def cell(r: dict[str, float]) -> str:
    """A row's columns for one seed."""
    return f"  {r['success']:15.1%}  {r['spread']:6.1%}  {r['over_demos']:+7.1%} [{r['low']:+.1%}, {r['high']:+.1%}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--repeats", type=int, default=2, help="fine-tunings of every recipe")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--selector", choices=("selector", "single"), default="single")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("overrides", nargs="*", help="of 'robotrl improve', as threads=1")
    arguments = parser.parse_args()
    table: dict[str, dict[str, dict[str, float]]] = {}
    for seed in arguments.seeds:
        comparison = Comparison(seed, arguments.runs, arguments.overrides)
        comparison.collect()
        found = comparison.measure(arguments.repeats, arguments.episodes, arguments.selector)
        table[str(seed)] = {name: row(name, found) for name in found}
        comparison.run.close()
    print(f"\n{'recipe':<22}" + "".join(f"  seed {s}: success  spread  over demonstrations" for s in table))
    for name in next(iter(table.values())):
        print(f"{name:<22}" + "".join(cell(rows[name]) for rows in table.values()))
    if arguments.json:
        print(json.dumps({"benchmark": "recipes", "seeds": table}))


if __name__ == "__main__":
    main()
