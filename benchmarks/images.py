"""Does a small policy learn from pictures? Demonstrations, training and evaluation, by the steps of the commands.

Pictures are of 64 x 64 pixels in the profile `fast`, of the scene and from the hand; of the state the policy sees what
the robot measures on itself, so that the goal is in the pictures alone. Success is of validation starts, with a Wilson
interval of 95 %.

    uv run python benchmarks/images.py          # a table
    uv run python benchmarks/images.py --json   # and one line of JSON at the end
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

# Python puts this folder first, where `sim.py` would hide the package `sim`: move it to the end.
sys.path.sort(key=lambda folder: Path(folder).resolve() == Path(__file__).resolve().parent)

from robotrl.configuration import compose_config
from robotrl.parts import Parts
from robotrl.rundir import RunDirectory
from robotrl.steps import Steps

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    parser.add_argument("--task", default="reach")
    parser.add_argument("--demonstrations", type=int, default=500)
    parser.add_argument("--updates", type=int, default=1200)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    overrides = [f"task={options.task}", "policy=flow_image", "learner=pictures", f"batch={BATCH}"]
    parts = Parts(compose_config("improve", overrides))
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with RunDirectory.open(path, {}, parts.spec.fingerprint) as run:
            steps = Steps(parts, run, options.seed, worlds=64)
            begin = time.perf_counter()
            steps.demonstrate("demonstrations", steps.starts("train", options.demonstrations))
            seconds["collect_s"] = time.perf_counter() - begin
            steps.label("base", "base_labels", ["demonstrations"])
            begin = time.perf_counter()
            trained = steps.train(0, "base", options.updates, None, {})
            seconds["train_s"] = time.perf_counter() - begin
            begin = time.perf_counter()
            found = steps.evaluate(0, "selector", steps.starts("validation", options.episodes), "evaluate")
            seconds["evaluate_s"] = time.perf_counter() - begin
    low, high = found.interval
    print(f"{options.task}: {found.rate:.1%} [{low:.1%}, {high:.1%}] of {found.n} validation starts, from pictures")
    print("  ".join(f"{name[:-2]} {value:.0f} s" for name, value in seconds.items()))
    if options.json:
        figures = {"success": found.rate, "low": low, "high": high, "n": found.n, "loss": trained["loss_last"]}
        print(json.dumps({**figures, "seconds": sum(seconds.values()), **seconds}))


if __name__ == "__main__":
    main()
