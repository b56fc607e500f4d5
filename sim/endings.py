"""When and how worlds end: by success that holds, by failure, by divergence, or out of time."""

from dataclasses import dataclass

import numpy as np

from robotrl.types import Bool, Int64
from sim.tasks.base import FAILURES, Measurement


@dataclass(frozen=True)
class Endings:
    """When and how n worlds end within K ticks.

    `last` (n,) is the index of the last valid tick, `streak` (n,) belongs to it; flags are (n, K). `reason` says of the
    worlds that end, by their index among the n, why ("" for success).
    """

    last: Int64
    terminated: Bool
    truncated: Bool
    streak: Int64
    reason: dict[int, str]


def endings(found: Measurement, sound: Bool, streak: Int64, tick: Int64, settle_ticks: int, horizon: int) -> Endings:
    """Find the first tick at which each world succeeds for long enough, fails, diverges or runs out of time.

    Args:
        found: what is true of the states (n, K).
        sound: (n, K) False from the tick on in which a world diverged.
        streak: (n,) successful ticks in a row before the first of the K.
        tick: (n,) ticks before it.
        settle_ticks: so many successful ticks in a row end an episode.
        horizon: longest episode in ticks.
    """
    n, ticks = sound.shape
    held = streaks(streak, found.success & sound)
    terminated = (held >= settle_ticks) | (found.failure > 0) | ~sound
    late = tick[:, None] + np.arange(1, ticks + 1) >= horizon
    over = terminated | late
    ended = over.any(1)
    last = np.where(ended, over.argmax(1), ticks - 1)
    at_last = np.arange(ticks) == last[:, None]
    reason: dict[int, str] = {}
    for i in np.flatnonzero(ended).tolist():
        k = last[i]
        failure = FAILURES[found.failure[i, k]] if terminated[i, k] else "timeout"
        reason[i] = failure if sound[i, k] else "diverged"
    return Endings(last, terminated & at_last, late & ~terminated & at_last, held[np.arange(n), last], reason)


def streaks(before: Int64, success: Bool) -> Int64:
    """How many ticks in a row were successes, up to each of K ticks (n, K), going on from `before` (n,)."""
    count = np.arange(1, success.shape[1] + 1)
    failed = np.maximum.accumulate(np.where(success, 0, count), axis=1)
    return count - failed + np.where(failed, 0, before[:, None])
