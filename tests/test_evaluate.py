"""An evaluation is a function of policy and seeds: neither worlds nor threads nor companions change an episode."""

from dataclasses import dataclass, field

import numpy as np
import torch

from policies.flow import FlowPolicy
from robotrl.configuration import compose_config
from robotrl.evaluate import Evaluation, evaluate
from robotrl.parts import Parts
from robotrl.rollout.loop import Execution
from robotrl.seeds import seed_range
from robotrl.types import Episode

SEEDS = seed_range("validation").block(23)


@dataclass
class Kept:
    """A sink that keeps what was done, by seed."""

    actions: dict[int, np.ndarray] = field(default_factory=dict)

    def on_episode(self, episode: Episode) -> None:
        self.actions[episode.meta.seed] = episode.action

    def close(self) -> None:
        pass


def parts(threads: int) -> Parts:
    return Parts(compose_config("improve", [f"threads={threads}", "task.environment.task.time_limit_s=3.0"]))


def flow(parts: Parts, threads: int) -> FlowPolicy:
    """A policy that moves without having been trained: every weight is drawn, every scale is one."""
    made = FlowPolicy(parts.spec.state, parts.spec.action, width=64, blocks=1, threads=threads)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in made.network.parameters():
            weight.normal_(0.0, 0.1, generator=generator)
        made.features.scale.fill_(1.0)
        made.normalizer.scale.fill_(0.05)
    return made


def outcome(worlds: int, threads: int) -> tuple[Evaluation, Kept]:
    made, kept = parts(threads), Kept()
    policy = made.selector(flow(made, threads))
    return evaluate(made.environment(worlds), policy, made.execution(), SEEDS, sinks=(kept,)), kept


def test_worlds_and_threads_change_no_bit_of_any_episode():
    reference, acted = outcome(worlds=1, threads=1)
    assert reference.n == len(SEEDS) and len({a.tobytes() for a in acted.actions.values()}) == len(SEEDS)
    for worlds, threads in ((7, 2), (64, 1)):
        found, others = outcome(worlds, threads)
        assert found.to_json() == reference.to_json()
        for seed in SEEDS:
            np.testing.assert_array_equal(others.actions[int(seed)], acted.actions[int(seed)])


def test_an_experts_successes_are_the_same_for_any_number_of_worlds():
    found = []
    for worlds, threads in ((1, 1), (7, 2), (64, 1)):
        made = Parts(compose_config("improve", [f"threads={threads}"]))
        execution = Execution(execute=1)
        found.append(evaluate(made.environment(worlds), made.demonstrator(worlds), execution, SEEDS[:8]))
    assert found[0].rate == 1
    assert found[0].to_json() == found[1].to_json() == found[2].to_json()
    # Who succeeds has passed every checkpoint.
    assert set(found[0].checkpoints) == {"reached", "grasped", "lifted", "aligned", "seated", "released"}
    assert set(found[0].checkpoints.values()) == {8}


def test_two_evaluations_join_in_order():
    one, two = (Evaluation.from_json(outcome(7, 1)[0].to_json()) for _ in range(2))
    joined = one.joined(two)
    np.testing.assert_array_equal(joined.seeds, np.concatenate([SEEDS, SEEDS]))
    assert joined.n == 2 * one.n and joined.rate == one.rate
    assert joined.reasons == {reason: 2 * count for reason, count in one.reasons.items()}
    assert joined.checkpoints == {name: 2 * count for name, count in one.checkpoints.items()}


def test_an_evaluation_from_before_checkpoints_were_counted_still_reads():
    old = {name: value for name, value in outcome(7, 1)[0].to_json().items() if name != "checkpoints"}
    assert Evaluation.from_json(old).checkpoints == {}
