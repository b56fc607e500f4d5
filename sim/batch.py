"""What a call to a batched environment must look like; errors say what was expected and what came."""

import numpy as np
from numpy.typing import NDArray

from robotrl.errors import ConfigurationError, DataError
from robotrl.specs import ArraySpec, EnvironmentSpec
from robotrl.types import Bool, Branch, Float32, Int64


def require_worlds(worlds: int) -> None:
    """Raise `ConfigurationError` unless there is a world."""
    if worlds < 1:
        raise ConfigurationError(f"worlds: expected at least 1, got {worlds}")


def rows_of(mask: Bool, worlds: int) -> Int64:
    """Indices (n,) of the worlds in `mask` (N,)."""
    if np.shape(mask) != (worlds,) or np.asarray(mask).dtype != np.bool_:
        raise DataError(f"mask: expected {worlds} booleans, got shape {np.shape(mask)}, {np.asarray(mask).dtype}")
    return np.flatnonzero(mask)


def require_seeds(seeds: Int64, worlds: int) -> None:
    """Raise `DataError` unless `seeds` has one for every world."""
    if np.shape(seeds) != (worlds,):
        raise DataError(f"seeds: expected shape ({worlds},), got {np.shape(seeds)}")


def moving_actions(actions: Float32, rows: Int64, running: Bool, spec: ArraySpec) -> Float32:
    """The actions (n, K, A) of the worlds `rows` (n,) that move, float32, out of `actions` (N, K, A).

    Raises `DataError` for another shape, for values that are not finite, and where a world is not `running` (N,).
    """
    shape, worlds = np.shape(actions), len(running)
    if len(shape) != 3 or shape[0] != worlds or shape[1] < 1 or shape[2] != spec.size:
        raise DataError(f"actions: expected shape ({worlds}, K >= 1, {spec.size}), got {shape}")
    ended = rows[~running[rows]]
    if len(ended):
        raise DataError(f"worlds {ended.tolist()} have ended or were never reset; reset them before stepping")
    moving = np.asarray(actions, dtype=np.float32)[rows]
    spec.require(moving)
    return moving


def spread[T: np.generic](rows: Int64, worlds: int, values: NDArray[T], rest: NDArray[T] | None = None) -> NDArray[T]:
    """The moving worlds' `values` (n, K, ...) over all N `worlds`; the others hold their `rest` (N, ...), or 0."""
    if len(rows) == worlds:
        return values
    shape = (worlds, *values.shape[1:])
    out = np.zeros(shape, values.dtype) if rest is None else np.broadcast_to(rest[:, None], shape).copy()
    out[rows] = values
    return out


def require_own(branch: Branch, spec: EnvironmentSpec) -> None:
    """Raise `DataError` unless the parent of `branch` was recorded in the environment of `spec`."""
    meta = branch.parent.meta
    if meta.environment != spec.fingerprint:
        raise DataError(
            f"episode {meta.episode_id} was recorded in environment {meta.environment}, this one is "
            f"{spec.fingerprint}: build the task with the parameters that it was recorded with"
        )
