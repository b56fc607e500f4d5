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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np

from robotrl.errors import ConfigurationError
from robotrl.types import Bool, Float64
from sim import scene

# MuJoCo would write a file MUJOCO_LOG.TXT into the current folder.
mujoco.set_mju_user_warning(logging.getLogger("sim.engine").debug)

# The clock of the scratch data before the first tick. MuJoCo resets a world whose state became huge or NaN without an
# error; its clock then starts again at zero.
_START_S = 1.0


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
        # The calling thread does its share.
        self._pool = ThreadPoolExecutor(max(1, self.threads - 1), "sim")

    def run(
        self, physics: Float64, controls: Float64, models: Sequence[mujoco.MjModel] | None = None
    ) -> tuple[Float64, Bool]:
        """Advance n worlds by K control ticks.

        Args:
            physics: (n, X) states to start from.
            controls: (n, K, U) actuator targets of every tick.
            models: n copies of the model with other values in them, for worlds that differ; the model itself when None.

        Returns:
            States after every tick (n, K, X), and whether they are sound (n, K): False from the tick on in which a
            world diverged. Unsound states repeat the last sound one, but for the time, which goes on.
        """
        n, ticks = controls.shape[:2]
        self._require_copies(models, n)
        out = np.empty((n, ticks, physics.shape[-1]))
        controls = np.ascontiguousarray(controls, dtype=np.float64)
        start = physics.copy()
        start[:, 0], start[:, self._controls] = _START_S, controls[:, 0]
        # One shared iterator balances the load: a thread takes the next world when it is done with one.
        order = iter(range(n))
        jobs = [self._pool.submit(self._work, d, order, start, controls, out, models) for d in self._scratch[1:]]
        self._work(self._scratch[0], order, start, controls, out, models)
        for job in jobs:
            job.result()
        sound = self._soundness(out)
        # Summed in the same order however the ticks are split into calls.
        times = np.full((n, ticks + 1), self.substeps * self.model.opt.timestep)
        times[:, 0] = physics[:, 0]
        out[..., 0] = np.add.accumulate(times, axis=1)[:, 1:]
        for row in np.flatnonzero(~sound[:, -1]):
            first = int(np.argmin(sound[row]))
            out[row, first:, 1:] = out[row, first - 1, 1:] if first else physics[row, 1:]
        return out, sound

    def _require_copies(self, models: Sequence[mujoco.MjModel] | None, worlds: int) -> None:
        """MuJoCo would take models of other sizes than the scratch memory's without a word."""
        if models is None:
            return
        sizes = {
            (m.nq, m.nv, m.nu, m.nbody, m.ngeom, m.nmocap) for m in {id(m): m for m in (self.model, *models)}.values()
        }
        if len(models) != worlds or len(sizes) != 1:
            raise ConfigurationError(
                f"expected {worlds} copies of the engine's model, got {len(models)} of sizes {sizes}"
            )

    def _work(
        self,
        data: mujoco.MjData,
        order: Iterator[int],
        start: Float64,
        controls: Float64,
        out: Float64,
        models: Sequence[mujoco.MjModel] | None,
    ) -> None:
        """Advance the worlds that `order` hands out; writes their rows of `out`, with the scratch clock's times.

        `start` (n, X) already holds the clock and the controls of the first tick.
        """
        model, substeps, kind, held = self.model, self.substeps, scene.PHYSICS, data.ctrl
        step, get = mujoco.mj_step, mujoco.mj_getState
        for row in order:
            if models is not None:
                model = models[row]
            mujoco.mj_setState(model, data, start[row], kind)
            for k, after in enumerate(out[row]):
                if k:
                    held[:] = controls[row, k]
                step(model, data, substeps)
                get(model, data, after, kind)

    @staticmethod
    def _soundness(out: Float64) -> Bool:
        """Whether the worlds did not diverge until each tick (n, K), from their states with the scratch clock's times.

        MuJoCo looks at a state before a step, so that one which got out of bounds in the last step of a tick passed
        it; and it takes controls out of bounds for zeros.
        """
        # Two numbers tell of all states in almost every call; a NaN fails the comparison.
        if out.size and out.min() > -mujoco.mjMAXVAL and out.max() < mujoco.mjMAXVAL and out[..., 0].min() > _START_S:
            return np.ones(out.shape[:2], np.bool_)
        inside = (np.abs(out) < mujoco.mjMAXVAL).all(-1) & (out[..., 0] > _START_S)
        return np.logical_and.accumulate(inside, axis=1)

    def close(self) -> None:
        """Stop the threads. Idempotent."""
        self._pool.shutdown()
