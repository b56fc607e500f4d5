"""N worlds of one compiled model on all cores.

The engine is a pure function: physics states and controls in, physics states after every control tick out. Because
the model disables the solver's warm start, a physics state is all there is to a world. Hence results have the same
bits for any number of worlds or threads and any split into calls, and a thread needs only one scratch `MjData`.
Threads over `mj_step(nstep)` are as fast here as `mujoco.rollout`, which would hold the state of every substep.
"""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np

from robotrl.errors import ConfigurationError
from robotrl.types import Bool, Float64
from sim import scene

# MuJoCo would write a file MUJOCO_LOG.TXT into the current folder.
mujoco.set_mju_user_warning(logging.getLogger("sim.engine").debug)

# The clock of the scratch data at the start of a tick. MuJoCo resets a world whose state became huge or NaN without an
# error; its clock then shows less than this.
_TICK_START_S = 1.0


class Engine:
    """Steps worlds of `model`; holds threads and scratch memory but no world.

    Args:
        model: compiled with the warm start disabled.
        threads: how many worlds move at the same time; 0 means one for every core this process may use.
        substeps: physics steps in a control tick.
    """

    def __init__(self, model: mujoco.MjModel, threads: int = 1, substeps: int = 1) -> None:
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
            States after every tick (n, K, X), and whether they are sound (n, K): False from the tick on in which a
            world diverged. Unsound states repeat the last sound one.
        """
        n, ticks = controls.shape[:2]
        out = np.empty((n, ticks, physics.shape[-1]))
        sound = np.zeros((n, ticks), np.bool_)
        controls = np.ascontiguousarray(controls, dtype=np.float64)
        # One shared iterator balances the load: a thread takes the next world when it is done with one.
        order = iter(range(n))
        if self._pool is None:
            self._work(self._scratch[0], order, physics, controls, out, sound)
        else:
            jobs = [self._pool.submit(self._work, d, order, physics, controls, out, sound) for d in self._scratch]
            for job in jobs:
                job.result()
        # Summed in the same order however the ticks are split into calls.
        times = np.full((n, ticks + 1), self.substeps * self.model.opt.timestep)
        times[:, 0] = physics[:, 0]
        out[..., 0] = np.add.accumulate(times, axis=1)[:, 1:]
        # A state that is NaN at the end of a tick would be noticed by MuJoCo at the next one.
        broken = np.any(~np.isfinite(out), axis=-1)
        for row in np.flatnonzero(np.any(broken, axis=-1)):
            first = int(np.argmax(broken[row]))
            out[row, first:] = out[row, first - 1] if first else physics[row]
            sound[row, first:] = False
        return out, sound

    def _work(
        self, data: mujoco.MjData, order: Iterator[int], physics: Float64, controls: Float64, out: Float64, sound: Bool
    ) -> None:
        """Advance the worlds that `order` hands out; writes their rows of `out` and `sound`."""
        model, substeps, kind = self.model, self.substeps, scene.PHYSICS
        for row in order:
            mujoco.mj_setState(model, data, physics[row], kind)
            before = physics[row]
            for k, after in enumerate(out[row]):
                data.time = _TICK_START_S
                data.ctrl[:] = controls[row, k]
                mujoco.mj_step(model, data, substeps)
                mujoco.mj_getState(model, data, after, kind)
                if data.time < _TICK_START_S:
                    out[row, k:] = before
                    break
                sound[row, k] = True
                before = after

    def close(self) -> None:
        """Stop the threads. Idempotent."""
        if self._pool is not None:
            self._pool.shutdown()
