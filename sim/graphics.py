"""Which OpenGL backend MuJoCo draws with, and what to do where it can't. Imports no MuJoCo, which reads the choice."""

import ctypes
import os
import sys
from collections.abc import Mapping

from robotrl.errors import ConfigurationError

_LIBRARIES = {"egl": ("libEGL.so.1", "libGL.so.1"), "osmesa": ("libOSMesa.so.8",)}
"""What each backend loads, the better one first."""
_EGL = "`apt-get install libegl1 libgl1-mesa-dri` and set MUJOCO_GL=egl"
_OSMESA = "`apt-get install libosmesa6` and set MUJOCO_GL=osmesa"
_FIXES = {
    "egl": f"{_EGL}; in a container with a GPU, let the driver's graphics libraries in. Or {_OSMESA}",
    "osmesa": f"{_OSMESA}, and unset PYOPENGL_PLATFORM. Or {_EGL}, which is faster",
    "glfw": f"a window system is needed: set DISPLAY. Or do without one: {_EGL}, or {_OSMESA}",
    "disable": f"drawing was turned off: {_EGL}, or {_OSMESA}",
}
_ALIASES = {"disabled": "disable", "off": "disable", "false": "disable", "0": "disable"}


def choose_backend() -> None:
    """Set MUJOCO_GL to a backend that draws without a window, where its libraries load and nothing was chosen."""
    if sys.platform != "linux" or "MUJOCO_GL" in os.environ or "mujoco" in sys.modules:
        return
    found = detected()
    if found is not None:
        os.environ["MUJOCO_GL"] = found


def detected(libraries: Mapping[str, tuple[str, ...]] = _LIBRARIES) -> str | None:
    """The first backend of `libraries` whose libraries all load; None when there is none."""
    return next((name for name, needed in libraries.items() if all(map(_loads, needed))), None)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def no_context(error: Exception) -> ConfigurationError:
    """The error for a context that did not open: what was tried, what it said, and the fix."""
    chosen = os.environ.get("MUJOCO_GL", "").lower().strip()
    backend = _ALIASES.get(chosen, chosen)
    return ConfigurationError(
        f"cannot draw with the OpenGL backend MUJOCO_GL={chosen or '(not set: glfw)'} ({error}). "
        f"Before starting: {_FIXES.get(backend, _FIXES['glfw'])}. The Rerun view needs no driver"
    )
