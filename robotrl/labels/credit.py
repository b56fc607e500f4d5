"""Which ticks an outcome says anything about."""

import numpy as np

from robotrl.types import Bool, Episode


def after_last_takeover(episode: Episode) -> Bool:
    """(T,) ticks of the policy that no person's tick follows; all of them when nobody took over."""
    human = np.flatnonzero(episode.intervention)
    return np.arange(episode.length) > (human[-1] if human.size else -1)


def credit(episode: Episode) -> Bool:
    """(T,) ticks whose actions share in the outcome.

    Without an outcome there are none. No outcome crosses a takeover: what the policy did before one is neither
    rewarded for the person's rescue nor blamed for their failure, and a person's ticks are never the policy's credit.
    """
    return after_last_takeover(episode) & (episode.meta.outcome is not None)


def outcome_value(episode: Episode) -> float:
    """1 for success, 0 for failure (a timeout is one when the metadata say so), NaN without an outcome."""
    return {"success": 1.0, "failure": 0.0, None: np.nan}[episode.meta.outcome]
