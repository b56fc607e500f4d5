"""Visual profiles: how much of a scene's looks is drawn. They are stored with the data, in `CameraSpec.profile`."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

import copy

import mujoco
import numpy as np

from robotrl.errors import unknown_name

PROFILES = ("full", "fast")
"""`full`: shadows, smooth edges, round shapes. `fast`: none of these; on a CPU some fifty times as fast at 64 × 64."""

_SIDE = np.sqrt(np.pi) / 2
"""Half side of the square with the area of the unit circle."""


def require_profile(profile: str) -> None:
    """Raise `ConfigurationError` for a profile that there is not, with the nearest one."""
    if profile not in PROFILES:
        raise unknown_name("visual profile", profile, PROFILES)


def dressed(model: mujoco.MjModel, profile: str) -> mujoco.MjModel:
    """A copy of `model` that looks as `profile` says; for drawing only, since its shapes would collide differently."""
    require_profile(profile)
    own = copy.copy(model)
    if profile == "fast":
        own.light_castshadow[:] = 0
        own.vis.quality.offsamples = 0
        _square(own)
    return own


def _square(model: mujoco.MjModel) -> None:
    """Make capsules and cylinders boxes of the same cross-section and volume: a round shape has hundreds of faces."""
    kind, size = model.geom_type, model.geom_size
    capsule = kind == mujoco.mjtGeom.mjGEOM_CAPSULE
    size[capsule, 1] += size[capsule, 0] * (2 / 3)  # the caps
    round_ = capsule | (kind == mujoco.mjtGeom.mjGEOM_CYLINDER)
    size[round_, 2] = size[round_, 1]
    size[round_, 1] = size[round_, 0] = _SIDE * size[round_, 0]
    kind[round_] = mujoco.mjtGeom.mjGEOM_BOX


def take_looks(model: mujoco.MjModel, like: mujoco.MjModel) -> None:
    """Give `model` the colours, lights and camera poses of `like`, a variant of the same scene."""
    model.geom_rgba[:] = like.geom_rgba
    model.light_diffuse[:] = like.light_diffuse
    model.vis.headlight.diffuse[:] = like.vis.headlight.diffuse
    model.cam_pos[:], model.cam_quat[:] = like.cam_pos, like.cam_quat
