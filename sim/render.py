"""Pictures of physics states, drawn off screen."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

import atexit
import weakref

import mujoco
import numpy as np

from robotrl.errors import ConfigurationError, unknown_name
from robotrl.specs import CameraSpec
from robotrl.types import Float64, UInt8
from sim import scene
from sim.graphics import no_context
from sim.visual import dressed, require_profile, take_looks

FILM = CameraSpec("front", 480, 640)
"""What a person watches."""


def check_camera(model: mujoco.MjModel, camera: CameraSpec) -> None:
    """Raise `ConfigurationError` unless `model` has such a camera, with a known profile and a possible size."""
    names = [model.camera(i).name for i in range(model.ncam)]
    if camera.name not in names:
        raise unknown_name("camera", camera.name, names)
    require_profile(camera.profile)
    limit = model.vis.global_
    if not (0 < camera.height <= limit.offheight and 0 < camera.width <= limit.offwidth):
        raise ConfigurationError(
            f"picture of {camera.height} x {camera.width} pixels: expected 1 x 1 to {limit.offheight} x "
            f"{limit.offwidth}"
        )


class SceneRenderer:
    """Draws a model as one of its cameras sees it. A context manager; use it in the thread that opened it.

    Args:
        model: a compiled scene.
        camera: which camera, its size in pixels and its visual profile.
    """

    def __init__(self, model: mujoco.MjModel, camera: CameraSpec) -> None:
        check_camera(model, camera)
        self._camera, self._base = camera.name, model
        self._model = dressed(model, camera.profile)
        self._data = mujoco.MjData(self._model)
        try:
            self._renderer = mujoco.Renderer(self._model, camera.height, camera.width)
        # What a missing driver raises depends on the backend: EGL's own error, or an attribute that PyOpenGL lacks.
        except (mujoco.FatalError, AttributeError, ImportError, OSError, RuntimeError) as error:
            raise no_context(error) from error
        # At interpreter exit MuJoCo's own destructor comes after EGL has ended, and fails; so may a finalizer, whose
        # turn can be as late. What is registered after EGL's own end comes before it.
        self._release = weakref.finalize(self, self._renderer.close)
        atexit.register(self._release)

    def frame(self, physics: Float64, like: mujoco.MjModel | None = None) -> UInt8:
        """The picture (H, W, 3) uint8 of one physics state (X,), with the looks of the variant `like`, if any."""
        take_looks(self._model, self._base if like is None else like)
        mujoco.mj_setState(self._model, self._data, np.asarray(physics, np.float64), scene.PHYSICS)
        # All that is drawn: no contacts, no forces.
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        self._renderer.update_scene(self._data, self._camera)
        return self._renderer.render()

    def video(self, physics: Float64, like: mujoco.MjModel | None = None) -> UInt8:
        """The pictures (T, H, W, 3) uint8 of physics states (T, X)."""
        return np.stack([self.frame(state, like) for state in physics])

    def close(self) -> None:
        """Free the graphics context. Idempotent."""
        self._release()
        atexit.unregister(self._release)

    def __enter__(self) -> "SceneRenderer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def render(model: mujoco.MjModel, physics: Float64, camera: CameraSpec = FILM) -> UInt8:
    """The pictures (T, H, W, 3) uint8 of stored physics states (T, X) of `model`."""
    with SceneRenderer(model, camera) as renderer:
        return renderer.video(physics)
