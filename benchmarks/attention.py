"""Does a better policy need less of a person? The same starts and trigger, no limit on driving, three iterations.

    uv run python benchmarks/attention.py --seeds 0 1 2 --json

Iteration k watches policy k − 1 on the same starts. Its critic is fitted anew on that policy's own rollouts, the
person answers every alarm, and the corrections train policy k. Seconds of driving should fall while success, measured
on shared starts without a person, does not. The base is that of benchmarks/recipes.py: the same --runs share it.
"""

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from recipes import Comparison

from robotrl.evaluate import Evaluation
from robotrl.improve import BASE
from robotrl.steps import Result

ITERATIONS = 3
VERSIONS = (BASE, *(100 + k for k in range(1, ITERATIONS + 1)))
"""Policy versions; the recipes' own are below 100."""


class Attention(Comparison):
    """Three iterations of watching without a limit, from the base of one seed; resumable like any run."""

    def iterate(self, watched: int) -> list[Result]:
        """What each iteration's watching took."""
        self.base()
        steps = self.steps("operator.config.budget_s=inf")
        again = steps.starts("train", watched, block=15)
        stages, took = ["demonstrations"], []
        for k in range(1, ITERATIONS + 1):
            key, watch, drive = f"attention-{k}", f"attention-{k}/rollouts", f"attention-{k}/takeovers"
            before, after = VERSIONS[k - 1], VERSIONS[k]
            fresh = steps.starts("train", self.config.rollouts, block=100 * k)
            self.stage(watch, partial(steps.roll_out, watch, before, fresh))
            self.stage(f"{key}/critic", partial(steps.fit_critic, key, [watch]))
            took.append(self.stage(drive, partial(steps.take_over, drive, before, key, again, self.config.fleet)))
            stages += [watch, drive]
            self.stage(f"{key}/labels", partial(steps.label, key, "labels", list(stages), key))
            tune = steps.parts.config.fine_tuning
            self.stage(f"{key}/train", partial(steps.train, after, key, self.config.round_updates, before, tune))
        return took

    def success(self, episodes: int, selector: str) -> list[Evaluation]:
        """Success of the base and of every iteration's policy, nobody watching."""
        steps = self.steps()
        starts = steps.starts("final", episodes)
        looks = [partial(self.look, steps, version, selector, starts) for version in VERSIONS]
        names = [f"attention/evaluation-{version}-{selector}" for version in VERSIONS]
        return [Evaluation.from_json(self.stage(n, look)) for n, look in zip(names, looks, strict=True)]


def table(seed: int, took: Sequence[Result], found: Sequence[Evaluation]) -> Result:
    """Print one seed's iterations; returns them for JSON."""
    print(f"\nseed {seed}: before any, {found[0].rate:.1%} success")
    for k, (use, look) in enumerate(zip(took, found[1:], strict=True), 1):
        share = use["operator_s"] / max(took[0]["operator_s"], 1e-9)
        low, high = look.interval
        print(
            f"  iteration {k}: {use['operator_s']:6.0f} s of driving ({share:4.0%}), {use['takeovers']:4d} takeovers, "
            f"then {look.rate:.1%} [{low:.1%}, {high:.1%}]"
        )
    seconds = [use["operator_s"] for use in took]
    return {
        "operator_s": seconds,
        "third_over_first": seconds[-1] / max(seconds[0], 1e-9),
        "takeovers": [use["takeovers"] for use in took],
        "success": [look.rate for look in found],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--watched", type=int, default=100, help="starts under the person's eyes in every iteration")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--selector", choices=("selector", "single"), default="single")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("overrides", nargs="*", help="of 'robotrl improve', as threads=1")
    arguments = parser.parse_args()
    results: dict[str, Result] = {}
    for seed in arguments.seeds:
        attention = Attention(seed, arguments.runs, arguments.overrides)
        took = attention.iterate(arguments.watched)
        results[str(seed)] = table(seed, took, attention.success(arguments.episodes, arguments.selector))
        attention.run.close()
    if arguments.json:
        print(json.dumps({"benchmark": "attention", "watched": arguments.watched, "seeds": results}))


if __name__ == "__main__":
    main()
