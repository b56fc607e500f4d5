"""OGBench's manipulation tasks with one goal each: cubes, a scene of furniture, and puzzles of buttons, by a UR5e.

While it resets, OGBench steps its scene under random actions that no seed reaches, and what they leave behind (the
controls, the warm start of the solver) moves later states by some 1e-9. Here those steps are taken under zero actions.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from robotrl.errors import unknown_name
from robotrl.specs import CameraSpec
from sim.suites.base import Moment, SuiteEnvironment
from sim.suites.gymnasium import GymnasiumWorld
from sim.suites.packages import suite_module

_WORDS = {
    "cube": "bring the cubes to their places",
    "scene": "bring the cube, the drawer, the window and the locks into the wanted state",
    "puzzle": "press the buttons until all of them have the wanted colour",
}
_CONTROL_HZ = 20.0
"""OGBench's own control time step is 0.05 s."""
_FRONT = CameraSpec("front", 240, 320)


def tasks() -> list[str]:
    """Names of the manipulation tasks with one goal."""
    suite_module("ogbench")  # registers them
    return [key for key in gymnasium.registry if key.partition("-")[0] in _WORDS and "singletask" in key]


def ogbench(
    name: str, worlds: int, horizon: int | None = None, cameras: Sequence[CameraSpec] = (_FRONT,)
) -> SuiteEnvironment:
    """`worlds` worlds of the task `name`, such as "cube-single-singletask-task1-v0".

    Args:
        name: Gymnasium's id of it.
        worlds: N.
        horizon: longest episode in ticks; OGBench's own limit when None.
        cameras: of the task's model.
    """
    if name not in (known := tasks()):
        raise unknown_name("OGBench task", name, known)
    words = _WORDS[name.partition("-")[0]]

    def make() -> OGBench:
        env = gymnasium.make(name, disable_env_checker=True)
        return OGBench(env, name, "success", _CONTROL_HZ, horizon, words, tuple(cameras))

    return SuiteEnvironment(make, worlds)


class OGBench(GymnasiumWorld):
    """One world of an OGBench task."""

    def reset(self, seed: int) -> Moment:
        """Start from `seed` alone."""
        bare: Any = self._env.unwrapped
        own = bare.step
        bare.step = lambda action: own(np.zeros_like(action))
        try:
            return super().reset(seed)
        finally:
            del bare.step
