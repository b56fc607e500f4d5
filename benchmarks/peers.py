"""How close do other simulators get to MuJoCo? Control steps per core-second of a peer's own loop over bare `mj_step`.

Each peer runs one world as its users run it, under random actions, without pictures; the bound steps the same model
from the same states by the same number of physics steps, with the controls that the peer had set, and reads nothing.
Peers that are not installed are named and left out. EnvPool brings a MuJoCo of its own and steps Meta-World's task.

    uv run --extra suites python benchmarks/peers.py --json
"""

import argparse
import importlib.util
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

# Python puts this folder first, where `sim.py` would hide the package `sim`: move it to the end.
sys.path.sort(key=lambda folder: Path(folder).resolve() == Path(__file__).resolve().parent)

import gymnasium
import mujoco
import numpy as np

from sim.suites.aloha import Aloha
from sim.suites.base import Simulation
from sim.suites.packages import suite_module

SECONDS = 2.0
"""Processor time of each measurement."""
RESETS = 50
"""Ticks after which an episode begins again; the reset is not counted."""


@dataclass(frozen=True)
class Peer:
    """A peer's world: `reset` starts an episode, `step` runs a tick of `substeps` under a random action.

    `simulation` gives the model and data of the present episode.
    """

    reset: Callable[[], Any]
    step: Callable[[], Any]
    simulation: Callable[[], Simulation]
    substeps: int


def _turns(values: Sequence[Any]) -> Callable[[], Any]:
    """Gives the values in turn, again and again."""
    return cycle(values).__next__


def _random(space: gymnasium.Space[Any]) -> Callable[[], Any]:
    """64 random actions in turn; to draw them anew would be measured."""
    return _turns([space.sample() for _ in range(64)])


def metaworld() -> Peer:
    env = suite_module("metaworld.env_dict").ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE["pick-place-v3-goal-observable"](
        seed=0
    )
    action = _random(env.action_space)
    return Peer(env.reset, lambda: env.step(action()), lambda: (env.model, env.data), env.frame_skip)


def robosuite() -> Peer:
    suite_module("robosuite.utils.log_utils").ROBOSUITE_DEFAULT_LOGGER.setLevel(logging.ERROR)
    env = suite_module("robosuite").make(
        "Lift", robots="Panda", has_renderer=False, has_offscreen_renderer=False, use_camera_obs=False
    )
    low, high = env.action_spec
    action = _random(gymnasium.spaces.Box(low, high))
    substeps = round(env.control_timestep / env.model_timestep)
    return Peer(env.reset, lambda: env.step(action()), lambda: (env.sim.model._model, env.sim.data._data), substeps)


def gym_aloha() -> Peer:
    """As it is: it draws three pictures at every tick."""
    return _aloha(pictures=True)


def gym_aloha_without_pictures() -> Peer:
    """Nothing that gym-aloha offers; what its loop would do without them."""
    return _aloha(pictures=False)


def _aloha(pictures: bool) -> Peer:
    env = suite_module("gym_aloha.env").AlohaEnv("transfer_cube")
    if not pictures:
        nothing = {"images": {"top": np.zeros((1, 1, 3), np.uint8)}}
        env._env.task.get_observation = lambda physics: nothing
    physics, rng = env._env.physics, np.random.default_rng(0)
    start = Aloha("transfer_cube", ()).reset(0).state[:14]
    actions = _turns([(start + rng.normal(0, 0.05, 14)).astype(np.float32) for _ in range(64)])
    return Peer(
        lambda: env.reset(seed=0),
        lambda: env.step(actions()),
        lambda: (physics.model.ptr, physics.data.ptr),
        round(0.02 / physics.model.opt.timestep),
    )


def gymnasium_vector() -> Peer:
    """`SyncVectorEnv` of one world, so that its own cost is seen."""
    vector = gymnasium.make_vec("Hopper-v5", num_envs=1, vectorization_mode="sync")
    bare: Any = vector.envs[0].unwrapped
    action = _random(vector.action_space)
    return Peer(vector.reset, lambda: vector.step(action()), lambda: (bare.model, bare.data), bare.frame_skip)


def envpool() -> Peer:
    """The task of `metaworld` in EnvPool, against the model of Meta-World."""
    pool = suite_module("envpool").make_gymnasium("MetaWorld/PickPlace-v3", num_envs=1, num_threads=1)
    like, actions = metaworld(), _turns(np.random.default_rng(0).uniform(-1, 1, (64, 1, 4)).astype(np.float64))
    like.reset()
    return Peer(pool.reset, lambda: pool.step(actions()), like.simulation, like.substeps)


PEERS: dict[str, tuple[str, Callable[[], Peer]]] = {
    "metaworld": ("metaworld", metaworld),
    "robosuite": ("robosuite", robosuite),
    "gym_aloha": ("gym_aloha", gym_aloha),
    "gym_aloha_without_pictures": ("gym_aloha", gym_aloha_without_pictures),
    "gymnasium_vector": ("gymnasium", gymnasium_vector),
    "envpool": ("envpool", envpool),
}
"""Name → the package that it needs, and what makes it."""


def _rate(reset: Callable[[], Any], step: Callable[[], Any], seconds: float) -> float:
    """Calls of `step` a second of processor time; `reset` comes before every 50th and is not counted."""
    done, spent = 0, 0.0
    while spent < seconds:
        reset()
        start = time.process_time()
        for _ in range(RESETS):
            step()
        spent += time.process_time() - start
        done += RESETS
    return done / spent


def _bound(peer: Peer, seconds: float) -> float:
    """Control steps a second of processor time by `mj_step` alone, through the controls of one recorded episode."""
    peer.reset()
    model, data = peer.simulation()
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    start = np.zeros(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(model, data, start, kind)
    controls, poses = [], []
    for _ in range(RESETS):
        peer.step()
        controls.append(data.ctrl.copy())
        poses.append(data.mocap_pos.copy())
    scratch, inputs = mujoco.MjData(model), cycle(zip(controls, poses, strict=True))

    def step() -> None:
        scratch.ctrl[:], scratch.mocap_pos[:] = next(inputs)
        mujoco.mj_step(model, scratch, nstep=peer.substeps)

    return _rate(lambda: mujoco.mj_setState(model, scratch, start, kind), step, seconds)


def peers(seconds: float = SECONDS) -> dict[str, dict[str, float]]:
    """Name of every peer that is installed → `control_steps_per_core_s`, `bound_per_core_s`, `ratio_to_bound`."""
    found: dict[str, dict[str, float]] = {}
    for name, (package, make) in PEERS.items():
        if importlib.util.find_spec(package) is None:
            print(f"{name}: '{package}' is not installed, left out", file=sys.stderr)
            continue
        peer = make()
        peer.reset()
        peer.step()  # what is compiled at first use is not measured
        bound = _bound(peer, seconds)
        rate = _rate(peer.reset, peer.step, seconds)
        found[name] = {
            "control_steps_per_core_s": round(rate, 1),
            "bound_per_core_s": round(bound, 1),
            "ratio_to_bound": round(rate / bound, 4),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="processor time of each measurement")
    arguments = parser.parse_args()
    found = peers(arguments.seconds)
    for name, row in found.items():
        print(f"{name:18}", *(f"{key} {value}" for key, value in row.items()))
    if arguments.json:
        print(json.dumps({"peers": found}))


if __name__ == "__main__":
    main()
