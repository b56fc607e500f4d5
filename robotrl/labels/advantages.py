"""How much a stretch of actions changed the prospects."""

import numpy as np

from robotrl.labels.returns import discounted_return
from robotrl.types import Float32


def value_gain(value: Float32, ticks: int, outcome: float = np.nan) -> Float32:
    """A_t = V(s_{t+n}) − V(s_t), (T,), with n = `ticks`; past the end, `outcome` − V(s_t).

    Args:
        value: (T + 1,) success probability of every state.
        ticks: n, usually the executed length of a chunk.
        outcome: 1 success, 0 failure; NaN leaves the last state's value in its place.
    """
    after = np.append(value[:-1], value[-1] if np.isnan(outcome) else np.float32(outcome))
    later = np.minimum(np.arange(len(value) - 1) + ticks, len(value) - 1)
    return (after[later] - value[:-1]).astype(np.float32)


def n_step_advantage(reward: Float32, value: Float32, ticks: int, discount: float, terminal: float = np.nan) -> Float32:
    """A_t = Σ_{k<m} γᵏ r_{t+k} + γᵐ V(s_{t+m}) − V(s_t), (T,), with m = min(n, T − t).

    Args:
        reward: (T,).
        value: (T + 1,) expected discounted return of every state.
        ticks: n ≥ 1.
        discount: γ.
        terminal: worth of what follows the last state, 0 after a true end; NaN bootstraps from its value.
    """
    total = len(reward)
    last = value[-1] if np.isnan(terminal) else np.float32(terminal)
    value_after = np.append(value[:-1], last)
    later = np.minimum(np.arange(total) + ticks, total)
    full = np.append(discounted_return(reward, discount), np.float32(0.0))
    decay = np.float32(discount) ** (later - np.arange(total))
    return (full[:-1] - decay * full[later] + decay * value_after[later] - value[:-1]).astype(np.float32)
