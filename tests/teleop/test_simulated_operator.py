from dataclasses import replace

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from robotrl.interfaces import Operator
from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.seeds import seed_range
from robotrl.types import ControlMode, Status
from sim.environment import MujocoEnvironment
from sim.experts import Expert, ExpertPolicy
from sim.tasks.handover import Handover
from sim.tasks.insert import Insert
from teleop.simulated_operator import OperatorConfig, SimulatedOperator
from tests.contracts.operator import OperatorContract

WORLDS = 3


def environment() -> MujocoEnvironment:
    return MujocoEnvironment(Insert(time_limit_s=6.0), worlds=WORLDS, threads=1)


def operator_of(spec, **changes) -> SimulatedOperator:
    return SimulatedOperator(spec, Expert(spec, WORLDS), OperatorConfig(**changes), WORLDS)


class TestAlarmOperator(OperatorContract):
    trigger = "alarm"

    def environment(self) -> MujocoEnvironment:
        return environment()

    def operator(self, environment) -> SimulatedOperator:
        return operator_of(environment.spec, trigger=self.trigger, random_per_minute=600)


class TestStallOperator(TestAlarmOperator):
    trigger = "stall"


class TestStallOperatorOfTwoArms(TestStallOperator):
    def environment(self) -> MujocoEnvironment:
        return MujocoEnvironment(Handover(time_limit_s=6.0), worlds=WORLDS)


@pytest.mark.parametrize(("moved", "called"), [("", True), ("left_tool.z", False), ("right_tool.x", False)])
def test_a_robot_of_two_arms_stalls_when_neither_of_them_moves(moved: str, called: bool):
    env = MujocoEnvironment(Handover(), WORLDS)
    everyone, seeds = np.ones(WORLDS, np.bool_), seed_range("train").block(WORLDS)
    start, operator = env.reset(seeds, everyone), operator_of(env.spec, trigger="stall", reaction_s=5.0)
    turned_to = False
    for tick in range(2 * round(operator.config.stall_s * env.spec.control_hz)):
        state = start.state.copy()
        if moved:
            state[:, env.spec.state.elements.index(moved)] += 0.001 * tick
        status = Status(np.full(WORLDS, np.nan, np.float32), everyone, np.full(WORLDS, tick == 0), seeds)
        turned_to |= operator.attend(replace(start, state=state), status).orient.any()
    assert turned_to == called


class TestRandomOperator(TestAlarmOperator):
    trigger = "random"


class TestSelfCallingOperator(TestAlarmOperator):
    trigger = "self"


class Judge:
    """A critic for tests: confident when the peg is off the table."""

    def __init__(self, spec) -> None:
        self.height = spec.state.elements.index("peg.z")

    def value(self, states):
        return np.where(states[:, self.height] > 0.02, 0.9, 0.1).astype(np.float32)


class Idle(ExpertPolicy):
    """A policy that holds still."""

    chunk_length = 16

    def propose(self, observation, rows, committed, rng):
        from robotrl.rollout.loop import hold_action
        from robotrl.types import ActionChunk

        hold = hold_action(self._expert.spec, observation.state[:, -1])
        return ActionChunk(rows, np.repeat(hold[:, None], 16, axis=1), observation.tick, 0)


def episodes(starts: int = 4, **changes):
    world = environment()
    operator = operator_of(world.spec, **changes)
    policy = Idle(Expert(world.spec, WORLDS))
    rollout = Rollout(world, policy, Execution(), Origin("run", "takeovers"), operator, Judge(world.spec))
    found = list(rollout.run(seed_range("train").block(starts)))
    world.close()
    return found, operator


def test_the_simulated_person_satisfies_the_protocol():
    assert isinstance(operator_of(environment().spec), Operator)


def test_the_person_reacts_late_drives_at_least_the_minimum_and_hands_back_when_the_critic_is_confident():
    found, _ = episodes(reaction_s=0.5, min_drive_s=0.6, alarm_ticks=2)
    first = found[0]
    driven = np.flatnonzero(first.intervention)
    assert driven[0] >= 10
    ends = np.flatnonzero(np.diff(first.intervention.astype(int)) < 0)
    assert len(ends) and ends[0] - driven[0] + 1 >= 12
    assert first.probability[ends[0] + 1] > 0.7
    assert (first.control_mode[driven] == ControlMode.CORRECTION).all()


def test_human_and_policy_actions_are_kept_apart():
    found, _ = episodes()
    for episode in found:
        human = episode.intervention
        np.testing.assert_array_equal(np.isnan(episode.action_human).all(axis=1), ~human)
        assert np.isnan(episode.action_policy[human]).all()
        assert (episode.chunk_id[human] == -1).all()


def test_every_takeover_and_hand_back_opens_a_new_chunk_epoch():
    found, _ = episodes()
    for episode in found:
        back = np.flatnonzero(np.diff(episode.intervention.astype(int)) < 0) + 1
        assert (episode.chunk_row[back[back < episode.length]] == 0).all()


def test_seconds_add_up_and_the_budget_ends_the_driving():
    found, operator = episodes(starts=12, budget_s=2.0)
    driven = sum(e.meta.operator_s for e in found)
    assert operator.exhausted
    assert driven == pytest.approx(2.0)
    assert driven == pytest.approx(sum(e.intervention.sum() for e in found) / 20)
    assert len(found) < 12, "no new episode starts for a person who has left"
    assert all(e.meta.orient_s >= 0 and e.meta.watch_s >= 0 for e in found)


def test_an_episode_that_a_person_touched_is_a_takeover():
    found, _ = episodes(budget_s=1.0)
    for episode in found:
        assert (episode.meta.source == "takeover") == bool(episode.intervention.any())


@pytest.mark.parametrize("changes", [{"alarm_below": 0.8}, {"budget_s": -1.0}, {"reaction_s": -0.1}])
def test_impossible_people_are_refused(changes):
    with pytest.raises(ConfigurationError, match="operator"):
        OperatorConfig(**changes)
