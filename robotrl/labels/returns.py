"""What remained to be earned, tick by tick."""

import numpy as np

from robotrl.types import Float32


def discounted_return(reward: Float32, discount: float) -> Float32:
    """R_t = Σ_k γᵏ r_{t+k}, (T,), of `reward` (T,) with γ = `discount`."""
    returns = np.zeros(len(reward) + 1)
    for t in range(len(reward) - 1, -1, -1):
        returns[t] = reward[t] + discount * returns[t + 1]
    return returns[:-1].astype(np.float32)


def time_to_go(ticks: int, control_hz: float) -> Float32:
    """Seconds (T,) from the observation at each of T = `ticks` to the end of the episode."""
    return (np.arange(ticks, 0, -1) / control_hz).astype(np.float32)
