"""Are the tasks of Meta-World what they are without us? Scripted policies on equal seeds, through both.

Every task runs once through `sim.suites`, with the float32 states that policies get, and once in Meta-World's own
environment of the same seed. `agree` counts the seeds with the same verdict, `same_tick` those whose first success
comes at the same tick. Starts are validation seeds.

    uv run --extra suites python benchmarks/suites.py          # the table of docs/suites.md
    uv run --extra suites python benchmarks/suites.py --json   # and one line of JSON at the end
"""

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

# Python puts this folder first, where `sim.py` would hide the package `sim`: move it to the end.
sys.path.sort(key=lambda folder: Path(folder).resolve() == Path(__file__).resolve().parent)

import numpy as np

from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.seeds import seed_range
from robotrl.types import Int64
from sim.experts import ExpertPolicy
from sim.suites.instructions import META_WORLD
from sim.suites.metaworld import ScriptedExpert, meta_world
from sim.suites.packages import suite_module

WORLDS = 5


def ours(name: str, seeds: Int64) -> list[int]:
    """Tick of the first success for every seed, 0 for none, through the loop."""
    environment = meta_world(name, WORLDS)
    policy = ExpertPolicy(ScriptedExpert(environment.spec, WORLDS))
    found = {}
    for episode in Rollout(environment, policy, Execution(execute=1), Origin("", "bench")).run(seeds):
        found[episode.meta.seed] = episode.length if episode.succeeded else 0
    environment.close()
    return [found[int(seed)] for seed in seeds]


def theirs(name: str, seeds: Int64) -> list[int]:
    """The same by Meta-World alone."""
    kind = suite_module("metaworld.env_dict").ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE[f"{name}-goal-observable"]
    policy = suite_module("metaworld.policies").ENV_POLICY_MAP[name]()
    return [_episode(kind(seed=int(seed)), policy) for seed in seeds]


def _episode(environment: Any, policy: Any) -> int:
    """Tick of the first success of one episode, 0 for none."""
    observation, _ = environment.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for tick in range(1, environment.max_path_length + 1):
            action = np.clip(policy.get_action(observation), -1, 1)
            observation, _, _, _, info = environment.step(action)
            if info["success"]:
                return tick
    return 0


def compare(name: str, seeds: Int64) -> dict[str, int]:
    """Successes through us and without us, and on how many seeds they agree."""
    mine, bare = np.array(ours(name, seeds)), np.array(theirs(name, seeds))
    return {
        "n": len(seeds),
        "ours": int((mine > 0).sum()),
        "theirs": int((bare > 0).sum()),
        "agree": int(((mine > 0) == (bare > 0)).sum()),
        "same_tick": int((mine == bare).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tasks", nargs="*", help="names; all by default")
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    names = arguments.tasks or list(META_WORLD)
    seeds, found = seed_range("validation").block(arguments.seeds), dict[str, dict[str, int]]()
    print("| task | in words | ours | theirs | agree | same tick |\n|---|---|---|---|---|---|")
    for name in names:
        found[name] = row = compare(name, seeds)
        counts = " | ".join(f"{row[key]}/{row['n']}" for key in ("ours", "theirs", "agree", "same_tick"))
        print(f"| `{name}` | {META_WORLD[name]} | {counts} |", flush=True)
    if arguments.json:
        agreeing = sum(row["agree"] == row["n"] for row in found.values())
        print(json.dumps({"tasks": len(found), "tasks_that_agree": agreeing, "metaworld": found}))


if __name__ == "__main__":
    main()
