"""Builds the parts that a configuration names. This is the only place that calls Hydra's `instantiate`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from robotrl.control.gate import GateConfig
from robotrl.critics.success import SuccessCritic
from robotrl.errors import ConfigurationError, RobotRLError
from robotrl.interfaces import Drawer, Environment, Labeler, Objective, Operator, Policy
from robotrl.learn.checkpoint import SavedPolicy, load_policy
from robotrl.learn.learner import LearnerConfig
from robotrl.rollout.disturbance import Pushes
from robotrl.rollout.loop import Execution
from robotrl.specs import CameraSpec, EnvironmentSpec
from robotrl.types import Episode, UInt8


@dataclass(frozen=True)
class Parts:
    """The parts of one configuration; each method makes a new one."""

    config: DictConfig

    @cached_property
    def spec(self) -> EnvironmentSpec:
        """What the task's environment promises."""
        environment = self.environment(worlds=1)
        environment.close()
        return environment.spec

    def environment(self, worlds: int) -> Environment:
        """`worlds` worlds of the task."""
        return self._make("task.environment", worlds=worlds)

    def drawer(self, cameras: Sequence[CameraSpec]) -> Drawer:
        """One world of the task with these cameras, to draw stored states with."""
        environment = self._make("task.environment", worlds=1, cameras=cameras)
        if not isinstance(environment, Drawer):
            raise ConfigurationError(f"{type(environment).__name__} cannot draw stored states; MujocoEnvironment can")
        return environment

    def expert(self, worlds: int) -> Any:
        """An expert for `worlds` worlds of the task: a person's hands."""
        if self.config.task.expert is None:
            raise ConfigurationError(
                f"task '{self.config.task.name}' has no expert: bring demonstrations with 'robotrl data import'"
            )
        return self._make("task.expert", spec=self.spec, worlds=worlds)

    def demonstrator(self, worlds: int) -> Policy:
        """The expert as a policy."""
        return self._make("task.demonstrator", expert=self.expert(worlds))

    def pushes(self) -> Pushes | None:
        """What disturbs demonstrations, or None."""
        return None if self.config.task.pushes is None else self._make("task.pushes")

    def film(self, episode: Episode) -> UInt8:
        """Pictures (T + 1, H, W, 3) of an episode, for a person to watch."""
        environment: Any = self.environment(1)
        if self.config.task.renderer is None:
            frames = environment.film(episode.meta.seed, episode.physics)
            environment.close()
            return frames
        environment.close()
        model = environment.recorded(episode.privileged[0])
        return self._make("task.renderer", model=model, physics=episode.physics)

    def policy(self, seed: int) -> SavedPolicy:
        """A policy with fresh weights. Names of cameras, and the word for what a robot measures on itself, are looked
        up in the environment's spec."""
        spec, chosen = self.spec, self.config.policy
        arguments: dict[str, Any] = {"state": spec.state, "action": spec.action, "seed": seed}
        if "cameras" in chosen:
            arguments["cameras"] = spec.cameras_called(chosen.cameras)
        if chosen.get("elements") == "proprioception":
            arguments["elements"] = spec.proprioception
        return self._make("policy", **arguments)

    @property
    def sees(self) -> bool:
        """Whether the configured policy, if there is one, learns from pictures."""
        return bool(OmegaConf.select(self.config, "policy.cameras"))

    def load_policy(self, directory: Path) -> SavedPolicy:
        """The policy saved in `directory`, checked against the task; it rolls out on the configured threads."""
        policy: Any = load_policy(directory, self.spec)
        policy.threads = self.config.threads
        return policy

    def selector(self, policy: Policy, kind: str = "selector") -> Policy:
        """`policy` as it is deployed ("selector"), or as it collects and is compared plainly ("single")."""
        return self._make(kind, policy=policy)

    def execution(self) -> Execution:
        """How chunks are executed."""
        return self._make("execution")

    def operator(self, worlds: int, seed: int) -> Operator | None:
        """A person over `worlds` worlds, or None."""
        if self.config.operator["_target_"] is None:
            return None
        return self._make("operator", spec=self.spec, expert=self.expert(worlds), worlds=worlds, seed=seed)

    def critic(self, seed: int) -> SuccessCritic:
        """An untrained critic."""
        return self._make("critic", state=self.spec.state, seed=seed)

    def labels(self, name: str = "labels") -> Labeler:
        """The labeler of "labels" (a round's) or "base_labels" (the first training's)."""
        return self._make(name)

    def objective(self) -> Objective:
        """The loss."""
        return self._make("objective")

    def learner(self, **changes: Any) -> LearnerConfig:
        """How to train; `changes` replace values."""
        values: Mapping[str, Any] = {**OmegaConf.to_container(self.config.learner), **changes}  # pyright: ignore
        return LearnerConfig(**values)

    def gate(self) -> GateConfig:
        """How promotion is decided."""
        return self._make("gate")

    def _make(self, name: str, **arguments: Any) -> Any:
        node: Any = OmegaConf.select(self.config, name)
        if node is None:
            raise ConfigurationError(f"the configuration has no part '{name}'")
        try:
            # Lists of parts hold the parts themselves, not OmegaConf's copies of them.
            made = instantiate(node, _convert_="object")
            return made(**arguments) if arguments else made
        except (HydraException, TypeError) as error:
            cause = error.__cause__
            while cause is not None and not isinstance(cause, RobotRLError):
                cause = cause.__cause__
            raise cause or ConfigurationError(f"cannot build '{name}': {error}") from error
