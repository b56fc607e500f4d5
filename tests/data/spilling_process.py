"""A process to be killed: a person drives simulated robots in real time, and every tick is spilled to the store."""

import sys
from pathlib import Path

import numpy as np

from robotrl.data.store import EpisodeStore
from robotrl.rollout.clocks import MonotonicClock
from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.seeds import seed_range
from sim.environment import MujocoEnvironment
from sim.experts import Expert, ExpertPolicy
from sim.tasks.insert import Insert
from teleop.simulated_operator import OperatorConfig, SimulatedOperator

WORLDS = 2


class Judge:
    """A critic that is always alarmed, so that the person takes over."""

    def value(self, states: np.ndarray) -> np.ndarray:
        return np.full(len(states), 0.1, np.float32)


def main(root: str) -> None:
    world = MujocoEnvironment(Insert(time_limit_s=3.0), worlds=WORLDS, threads=1)
    expert = Expert(world.spec, WORLDS)
    person = SimulatedOperator(world.spec, expert, OperatorConfig(reaction_s=0.2), WORLDS)
    clock = MonotonicClock(world.spec.control_hz)
    with EpisodeStore.create(Path(root), world.spec).writer() as writer:
        rollout = Rollout(
            world,
            ExpertPolicy(expert),
            Execution(execute=1),
            Origin("run", "drive"),
            person,
            Judge(),
            clock,
        )
        for episode in rollout.run(seed_range("train").block(100), writer.spills):
            writer.on_episode(episode)
            print(episode.meta.episode_id, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
