"""The way of actions to the servos, as a real robot's bus and gearboxes have it: late, and with noise."""

import numpy as np
from numpy.typing import NDArray

from robotrl import seeds as seed_streams
from robotrl.types import Float32, Int64
from sim.randomisation import Randomisation
from sim.tasks.base import Block


class Actuation:
    """What happens to the actions of N worlds on their way to the servos: they come late, and with noise.

    Attributes:
        pending: (N, most delay, A) the actions requested last, oldest first.
    """

    def __init__(self, how: Randomisation, worlds: int, horizon: int, noisy: NDArray[np.bool_]) -> None:
        """`noisy` (A,) tells which actions are joint targets; `horizon` is the longest episode in ticks."""
        self._how, self._noisy, self._horizon = how, noisy, horizon
        self._delay = np.zeros(worlds, np.int64)
        self._noise = np.zeros((worlds, horizon if how.action_noise_rad else 0, len(noisy)), np.float32)
        self.pending = np.zeros((worlds, how.action_delay_ticks, len(noisy)), np.float32)

    def begin(self, rows: Int64, seeds: Int64) -> None:
        """Draw delays and noise of the worlds `rows` (n,) from `seeds` (n,)."""
        most, std = self._how.action_delay_ticks, np.float32(self._how.action_noise_rad)
        for row, seed in zip(rows.tolist(), seeds.tolist(), strict=True):
            if most:
                draw = seed_streams.generator(seed, "randomisation", "action_delay")
                self._delay[row] = draw.integers(0, most, endpoint=True)
            if std:
                draw = seed_streams.generator(seed, "randomisation", "action_noise")
                self._noise[row] = std * draw.standard_normal(self._noise.shape[1:], np.float32) * self._noisy

    def hold(self, rows: Int64, held: Float32) -> None:
        """Until its first action arrives, each of the worlds `rows` (n,) does what was `held` (n, A)."""
        self.pending[rows] = held[:, None]

    def replayed(self, held: Float32, requested: Float32) -> Float32:
        """What is still under way, (most delay, A), in a world that began with `held` (A,) and was sent `requested`
        (T, A) since."""
        most = self._how.action_delay_ticks
        return np.concatenate([np.broadcast_to(held, (most, len(held))), requested])[len(requested) :]

    def arriving(self, rows: Int64, tick: Int64, requested: Float32) -> Float32:
        """What reaches the servos, (n, K, A).

        Args:
            rows: (n,) the worlds that move.
            tick: (n,) their ticks before the first action.
            requested: (n, K, A) what they are sent.
        """
        ticks = np.arange(requested.shape[1])
        if most := self._how.action_delay_ticks:
            known = np.concatenate([self.pending[rows], requested], axis=1)
            self.pending[rows] = known[:, len(ticks) :]
            requested = known[np.arange(len(rows))[:, None], most - self._delay[rows, None] + ticks]
        if self._how.action_noise_rad:
            when = np.minimum(tick[:, None] + ticks, self._horizon - 1)
            requested = requested + self._noise[rows[:, None], when]
        return requested

    def blocks(self, rows: Int64, lead: tuple[int, ...]) -> tuple[Block, ...]:
        """The delay of the worlds `rows` (n,) for an observation of leading axes `lead`, (n,) or (n, K)."""
        if not self._how.action_delay_ticks:
            return ()
        values = self._delay[rows].astype(np.float64).reshape(len(rows), *(1,) * len(lead))
        full = np.broadcast_to(values, (*lead, 1))
        return (Block("random.action_delay", (), "1", 0.0, float(self._how.action_delay_ticks), full),)
