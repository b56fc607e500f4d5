"""Pictures of a suite's MuJoCo world, by the cameras of its own model."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

import atexit

import mujoco
import numpy as np

from robotrl.errors import unknown_name
from robotrl.specs import CameraSpec
from robotrl.types import UInt8
from sim.graphics import no_context
from sim.suites.base import Simulation


class Pictures:
    """Draws one world. Its graphics contexts open at the first picture, in the calling thread."""

    def __init__(self) -> None:
        self._renderers: dict[CameraSpec, tuple[mujoco.MjModel, mujoco.Renderer]] = {}

    def of(self, simulation: Simulation, camera: CameraSpec) -> UInt8:
        """What `camera` sees, (H, W, 3)."""
        model, data = simulation
        renderer = self._renderer(model, camera)
        renderer.update_scene(data, camera.name)
        return np.array(renderer.render())

    def _renderer(self, model: mujoco.MjModel, camera: CameraSpec) -> mujoco.Renderer:
        """The renderer of `camera`; a suite that compiles its model again gets another one."""
        known = self._renderers.get(camera)
        if known is not None and known[0] is model:
            return known[1]
        if known is not None:
            known[1].close()
        # A suite's model rarely leaves room for a picture of any size.
        model.vis.global_.offheight = max(model.vis.global_.offheight, camera.height)
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, camera.width)
        try:
            renderer = mujoco.Renderer(model, camera.height, camera.width)
        except (mujoco.FatalError, AttributeError, ImportError, OSError, RuntimeError) as error:
            raise no_context(error) from error
        if not self._renderers:
            atexit.register(self.close)  # before EGL's own end
        self._renderers[camera] = (model, renderer)
        return renderer

    def close(self) -> None:
        """Free the graphics contexts. Idempotent."""
        atexit.unregister(self.close)
        for _, renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()


def require_camera(model: mujoco.MjModel, camera: CameraSpec) -> None:
    """Raise `ConfigurationError` with the nearest name unless `model` has such a camera."""
    names = [model.camera(i).name for i in range(model.ncam)]
    if camera.name not in names:
        raise unknown_name("camera", camera.name, names)
