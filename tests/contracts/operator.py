"""What every `Operator` must do. Inherit, and give a maker."""

from abc import ABC, abstractmethod

import numpy as np

from robotrl.interfaces import Environment, Operator
from robotrl.types import ControlMode, Observation, Status, Trigger

SECONDS = 4.0


class OperatorContract(ABC):
    """Drives `environment()` by commands alone, wherever the operator is active."""

    @abstractmethod
    def environment(self) -> Environment:
        """A few worlds."""

    @abstractmethod
    def operator(self, environment: Environment) -> Operator:
        """A fresh operator over them."""

    def watch(self, probability: float = 0.1):
        """Commands of `SECONDS` in which the robots hold unless driven; (observation, command) pairs."""
        environment = self.environment()
        operator, n = self.operator(environment), environment.worlds
        seeds = np.arange(n, dtype=np.int64)
        observation = environment.reset(seeds, np.ones(n, bool))
        running, started, seen = np.ones(n, bool), np.ones(n, bool), []
        columns = [environment.spec.state.elements.index(e) for e in environment.spec.action.elements]
        for _ in range(round(SECONDS * environment.spec.control_hz)):
            status = Status(np.full(n, probability, np.float32), running.copy(), started.copy(), seeds)
            command = operator.attend(observation, status)
            seen.append((observation, command))
            started[:] = False
            hold = observation.state[:, columns]
            actions = np.where(command.active[:, None], command.actions, hold)[:, None]
            moving = running & ~command.suspend
            if not moving.any():
                break
            step = environment.step(environment.spec.action.clip(actions), moving)
            running &= ~(step.terminated | step.truncated).any(axis=1)
            observation = step.observation
            if not running.any():
                break
        environment.close()
        return seen

    def test_commands_have_the_shapes_and_types_of_their_fields(self):
        actions = self.environment().spec.action.size
        for observation, command in self.watch():
            n = len(observation.tick)
            assert command.mode.shape == command.trigger.shape == command.active.shape == (n,)
            assert command.orient.shape == command.suspend.shape == (n,)
            assert command.mode.dtype == command.trigger.dtype == np.uint8
            assert command.actions.shape == (n, actions) and command.actions.dtype == np.float32

    def test_one_person_attends_to_one_robot_at_a_time(self):
        for _, command in self.watch():
            assert (command.active | command.orient).sum() <= 1
            assert not (command.active & command.orient).any()
            assert not (command.suspend & (command.active | command.orient)).any()

    def test_driven_robots_are_in_correction_with_a_trigger_and_finite_targets(self):
        driven = [c for _, c in self.watch() if c.active.any()]
        assert driven
        for command in driven:
            assert (command.mode[command.active] == ControlMode.CORRECTION).all()
            assert (command.mode[~command.active] == ControlMode.AUTONOMOUS).all()
            assert (command.trigger[command.active] != Trigger.NONE).all()
            assert np.isfinite(command.actions).all()

    def test_equal_histories_give_equal_commands(self):
        for (_, a), (_, b) in zip(self.watch(), self.watch(), strict=True):
            np.testing.assert_array_equal(a.active, b.active)
            np.testing.assert_array_equal(a.actions, b.actions)

    def test_an_operator_leaves_the_observation_alone(self):
        environment = self.environment()
        operator, n = self.operator(environment), environment.worlds
        observation = environment.reset(np.arange(n, dtype=np.int64), np.ones(n, bool))
        before = Observation(**{**vars(observation), "state": observation.state.copy()})
        status = Status(np.full(n, 0.1, np.float32), np.ones(n, bool), np.ones(n, bool), np.arange(n, dtype=np.int64))
        operator.attend(observation, status)
        np.testing.assert_array_equal(before.state, observation.state)
        environment.close()
