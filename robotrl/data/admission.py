"""Which episodes a store takes: those of its environment, whole, and with finite states and actions."""

import logging

import numpy as np

from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import Episode

_LOG = logging.getLogger(__name__)
MARGIN = 0.05
"""Share of its range by which a measured value may pass a bound: joints give way at their stops."""


def require_admissible(episode: Episode, spec: EnvironmentSpec, fingerprint: str) -> None:
    """Raise `DataError` for an episode that a store of `spec`, whose fingerprint is given, must not hold."""
    meta, where = episode.meta, f"episode {episode.meta.episode_id}"
    if meta.task != spec.task or meta.environment not in ("", fingerprint):
        raise DataError(
            f"{where} is of task '{meta.task}' ({meta.environment or 'no fingerprint'}); "
            f"the store holds '{spec.task}' ({fingerprint})"
        )
    if not episode.length:
        raise DataError(f"{where} has no ticks; an episode needs at least one")
    spec.state.require(episode.state)
    spec.action.require(episode.action)
    widths = {
        "privileged": (episode.privileged, spec.privileged.size),
        "physics": (episode.physics, spec.physics_size),
    }
    for name, (array, width) in widths.items():
        if array.shape[1:] != (width,):
            raise DataError(f"{where}: '{name}' has the shape {array.shape}; expected {width} columns")


def oddities(episode: Episode, spec: EnvironmentSpec) -> list[str]:
    """What is kept, since data is dear, but deserves a look: a clock that runs backwards, values out of range."""
    found: list[str] = []
    backwards = np.flatnonzero(np.diff(episode.time_ns) <= 0)
    if backwards.size:
        found.append(f"time_ns does not grow at {backwards.size} ticks, first at tick {backwards[0]}")
    for array_spec, array, margin in ((spec.state, episode.state, MARGIN), (spec.action, episode.action, 0.0)):
        low, high = np.array(array_spec.low), np.array(array_spec.high)
        # Float32 rounds bounds: a value is outside only when it is by more than that.
        give = margin * np.where(np.isfinite(high - low), high - low, 0.0)
        below, above = (1e-5 * (1 + np.abs(bound)) + give for bound in (low, high))
        outside = (array < low - below) | (array > high + above)
        for element in np.flatnonzero(outside.any(0)):
            row = int(np.flatnonzero(outside[:, element])[0])
            bounds = f"[{array_spec.low[element]:g}, {array_spec.high[element]:g}] {array_spec.units[element]}"
            found.append(
                f"{array_spec.name}: '{array_spec.elements[element]}' leaves {bounds} at {outside[:, element].sum()} "
                f"of {len(array)} rows, first {array[row, element]:g} at row {row}"
            )
    return found


def warn_of_oddities(episode: Episode, spec: EnvironmentSpec) -> None:
    """Log `oddities` as warnings."""
    for oddity in oddities(episode, spec):
        _LOG.warning("episode %s is kept, but look at it: %s", episode.meta.episode_id, oddity)
