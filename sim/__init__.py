"""MuJoCo simulation: scenes, tasks, experts and pictures behind the protocols of `robotrl.interfaces`."""

from sim.graphics import choose_backend, no_context

choose_backend()
try:
    import mujoco as _mujoco  # noqa: F401  # pyright: ignore[reportUnusedImport]
# MuJoCo loads the backend when it is imported; what a missing library raises depends on it.
except (AttributeError, OSError, RuntimeError) as _error:
    raise no_context(_error) from _error
