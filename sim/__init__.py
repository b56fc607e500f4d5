"""MuJoCo simulation: scenes, tasks, experts and pictures behind the protocols of `robotrl.interfaces`."""

import ctypes
import os
import sys


def _prefer_egl() -> None:
    """Let MuJoCo draw without a window where the libraries for it exist; it reads the variable when it is imported."""
    if sys.platform != "linux" or "MUJOCO_GL" in os.environ or "mujoco" in sys.modules:
        return
    try:
        for library in ("libEGL.so.1", "libGL.so.1"):
            ctypes.CDLL(library)
    except OSError:
        return
    os.environ["MUJOCO_GL"] = "egl"


_prefer_egl()
