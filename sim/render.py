"""Pictures of physics states, drawn off screen."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

import weakref

import mujoco
import numpy as np

from robotrl.errors import ConfigurationError, unknown_name
from robotrl.types import Float64, UInt8
from sim import scene

_FIX = (
    "cannot open an off-screen OpenGL context ({error}). Install a driver (`apt-get install libegl1 libgl1-mesa-dri`) "
    "and set the environment variable MUJOCO_GL=egl before starting; the Rerun view needs no driver"
)


class SceneRenderer:
    """Draws a model from its cameras. Use it as a context manager, and in the thread that opened it.

    Args:
        model: a compiled scene.
        height, width: size of the pictures in pixels.
    """

    def __init__(self, model: mujoco.MjModel, height: int, width: int) -> None:
        limit = model.vis.global_
        if not (0 < height <= limit.offheight and 0 < width <= limit.offwidth):
            raise ConfigurationError(
                f"picture of {height} x {width} pixels: expected 1 x 1 to {limit.offheight} x {limit.offwidth}"
            )
        self._model = model
        self._data = mujoco.MjData(model)
        try:
            self._renderer = mujoco.Renderer(model, height, width)
        # What a missing driver raises depends on the backend: EGL's own error, or an attribute that PyOpenGL lacks.
        except (mujoco.FatalError, AttributeError, ImportError, OSError, RuntimeError) as error:
            raise ConfigurationError(_FIX.format(error=error)) from error
        # MuJoCo's own destructor comes too late at interpreter exit and fails there.
        self._release = weakref.finalize(self, self._renderer.close)

    def frame(self, physics: Float64, camera: str = "front") -> UInt8:
        """The picture (H, W, 3) uint8 of one physics state (X,)."""
        names = [self._model.camera(i).name for i in range(self._model.ncam)]
        if camera not in names:
            raise unknown_name("camera", camera, names)
        mujoco.mj_setState(self._model, self._data, np.asarray(physics, np.float64), scene.PHYSICS)
        mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, camera)
        return self._renderer.render()

    def video(self, physics: Float64, camera: str = "front") -> UInt8:
        """The pictures (T, H, W, 3) uint8 of physics states (T, X)."""
        return np.stack([self.frame(state, camera) for state in physics])

    def close(self) -> None:
        """Free the graphics context. Idempotent."""
        self._release()

    def __enter__(self) -> "SceneRenderer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def render(
    model: mujoco.MjModel, physics: Float64, camera: str = "front", height: int = 480, width: int = 640
) -> UInt8:
    """The pictures (T, H, W, 3) uint8 of stored physics states (T, X) of `model`."""
    with SceneRenderer(model, height, width) as renderer:
        return renderer.video(physics, camera)
