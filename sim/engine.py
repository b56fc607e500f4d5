"""N worlds of one compiled model on all cores.

The engine is a pure function: physics states and controls in, physics states after every control tick out. Because the
model disables the solver's warm start, a physics state is all there is to a world. Hence results have the same bits for any
number of worlds or threads and any split into calls, and a thread needs only one scratch `MjData` for all its worlds.
Threads over `mj_step(nstep)` were within a few percent of `mujoco.rollout` here (`benchmarks/sim.py`) and, unlike
`rollout`, do not hold the state of every substep.
"""

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np

from robotrl.errors import ConfigurationError
from robotrl.types import Bool, Float64
from sim import scene


class Engine:
    """Steps worlds of `model`; holds threads and scratch memory but no world.

    Args:
        model: compiled with the warm start disabled.
        threads: how many worlds move at the same time; 0 means one for every core this process may use.
        substeps: physics steps in a control tick.
    """

    def __init__(self, model: mujoco.MjModel, threads: int = 1, substeps: int = scene.SUBSTEPS) -> None:
        if threads < 0:
            raise ConfigurationError(f"threads: expected 0 (all cores) or more, got {threads}")
        if not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_WARMSTART:
            raise ConfigurationError("the model must disable the warm start: with it, a physics state is incomplete")
        self.model = model
        self.threads = threads or len(os.sched_getaffinity(0))
        self.substeps = substeps
        self._controls = scene.control_slice(model)
        self._scratch = [mujoco.MjData(model) for _ in range(self.threads)]
        self._pool = ThreadPoolExecutor(self.threads, "sim") if self.threads > 1 else None

    def run(self, physics: Float64, controls: Float64) -> tuple[Float64, Bool]:
        """Advance n worlds by K control ticks.

        Args:
            physics: (n, X) states to start from.
            controls: (n, K, U) actuator targets of every tick.

        Returns:
            States after every tick (n, K, X), and whether they are sound (n, K): False from the tick on in which a world
            diverged. Unsound states repeat the last sound one.
        """
        n, ticks = controls.shape[:2]
        out = np.empty((n, ticks, physics.shape[-1]))
        controls = np.ascontiguousarray(controls, dtype=np.float64)
        order = iter(range(n))
        if self._pool is None:
            self._work(self._scratch[0], order, physics, controls, out)
        else:
            # One shared iterator balances the load: a thread takes the next world when it is done with one.
            jobs = [self._pool.submit(self._work, d, order, physics, controls, out) for d in self._scratch]
            for job in jobs:
                job.result()
        return out, self._sound(physics, out)

    def _work(
        self, data: mujoco.MjData, order: Iterator[int], physics: Float64, controls: Float64, out: Float64
    ) -> None:
        model, substeps, kind = self.model, self.substeps, scene.PHYSICS
        for row in order:
            mujoco.mj_setState(model, data, physics[row], kind)
            for ctrl, after in zip(controls[row], out[row], strict=True):
                data.ctrl[:] = ctrl
                mujoco.mj_step(model, data, substeps)
                mujoco.mj_getState(model, data, after, kind)

    def _sound(self, before: Float64, after: Float64) -> Bool:
        """Find diverged worlds and put their last sound state in place of what followed.

        MuJoCo resets a world whose state became huge or NaN, without an error: its time jumps back.
        """
        period = self.substeps * self.model.opt.timestep
        expected = before[:, None, 0] + period * np.arange(1, after.shape[1] + 1)
        sound = (np.abs(after[..., 0] - expected) < 0.5 * self.model.opt.timestep) & np.isfinite(after).all(-1)
        sound = np.logical_and.accumulate(sound, axis=1)
        for row, tick in itertools.product(*map(range, sound.shape)) if not sound.all() else ():
            if not sound[row, tick]:
                after[row, tick] = after[row, tick - 1] if tick else before[row]
        return sound

    def close(self) -> None:
        """Stop the threads. Idempotent."""
        if self._pool is not None:
            self._pool.shutdown()
