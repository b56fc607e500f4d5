"""From MJCF text to a compiled model, its physics state vector, and the scene description that views use."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

import mujoco
import numpy as np
from numpy.typing import NDArray

from robotrl.errors import ConfigurationError
from robotrl.specs import Frame, JointKind, Primitive, SceneSpec, Shape
from sim.robots import Robot

PHYSICS = (
    mujoco.mjtState.mjSTATE_TIME
    | mujoco.mjtState.mjSTATE_QPOS
    | mujoco.mjtState.mjSTATE_QVEL
    | mujoco.mjtState.mjSTATE_CTRL
    | mujoco.mjtState.mjSTATE_MOCAP_POS
    | mujoco.mjtState.mjSTATE_MOCAP_QUAT
)
"""What a physics state vector holds, in this order. With the warm start disabled nothing else carries over."""

_SIDE_RAD = 1.3
"""The camera "side" is the camera "front", turned so far about the middle of the table: together they see depth."""

_TEMPLATE = """
<mujoco model="{name}">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{timestep}" integrator="implicitfast" cone="elliptic" impratio="10">
    <flag warmstart="disable"/>
  </option>
  <visual>
    <global offwidth="1280" offheight="960"/>
    <quality shadowsize="2048" offsamples="4"/>
    <headlight ambient="0.35 0.35 0.35" diffuse="0.45 0.45 0.45" specular="0.1 0.1 0.1"/>
  </visual>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1="0.97 0.98 1" rgb2="0.78 0.83 0.9" width="64" height="384"/>
  </asset>
  <default>
    <default class="shape"><geom contype="0" conaffinity="0"/></default>
    <default class="solid"><geom contype="1" conaffinity="2" friction="0.4 0.005 0.0001"/></default>
    <default class="pad"><geom contype="1" conaffinity="2" priority="1" condim="4" friction="1.5 0.02 0.0001"
                               solref="0.01 1"/></default>
    <default class="object"><geom contype="2" conaffinity="3" friction="0.4 0.005 0.0001" solref="0.01 1"/></default>
    <default class="fixture"><geom contype="2" conaffinity="3" friction="0.3 0.005 0.0001" solref="0.01 1"/></default>
  </default>
  <worldbody>
    <light pos="0.3 -0.6 1.6" dir="0.1 0.4 -1" diffuse="0.5 0.5 0.5"/>
    <camera name="front" {camera}/>
    <frame pos="{table[2]} {table[3]} 0" euler="0 0 {side_rad}"><frame pos="-{table[2]} -{table[3]} 0">
      <camera name="side" {camera}/></frame></frame>
    <geom name="table" class="fixture" type="box" size="{table[0]} {table[1]} 0.02" pos="{table[2]} {table[3]} -0.02"
          rgba="0.78 0.72 0.64 1"/>
    {robot}
    {objects}
  </worldbody>
  <actuator>{actuators}</actuator>
</mujoco>
"""

_JOINTS: dict[int, JointKind] = {
    mujoco.mjtJoint.mjJNT_HINGE: "hinge",
    mujoco.mjtJoint.mjJNT_SLIDE: "slide",
    mujoco.mjtJoint.mjJNT_FREE: "free",
}
_SHAPES: dict[int, Shape] = {
    mujoco.mjtGeom.mjGEOM_BOX: "box",
    mujoco.mjtGeom.mjGEOM_CAPSULE: "capsule",
    mujoco.mjtGeom.mjGEOM_CYLINDER: "cylinder",
    mujoco.mjtGeom.mjGEOM_SPHERE: "sphere",
    mujoco.mjtGeom.mjGEOM_PLANE: "plane",
}


def compile_model(name: str, robot: Robot, objects: str) -> mujoco.MjModel:
    """The robot on its table with `objects` (MJCF bodies), compiled."""
    text = _TEMPLATE.format(
        name=name,
        timestep=robot.timestep_s,
        camera=robot.camera,
        side_rad=_SIDE_RAD,
        table=robot.table,
        robot=robot.bodies,
        objects=objects,
        actuators=robot.actuators,
    )
    model = mujoco.MjModel.from_xml_string(text)
    if model.nmocap > 1 or model.na > 0:
        raise ConfigurationError(
            f"scene '{name}' has {model.nmocap} mocap bodies and {model.na} actuator states; expected at most 1 and 0, "
            "because a physics state keeps a mocap pose in one piece and no activations"
        )
    return model


def physics_size(model: mujoco.MjModel) -> int:
    """X, the length of a physics state vector of `model`."""
    return mujoco.mj_stateSize(model, PHYSICS)


def control_slice(model: mujoco.MjModel) -> slice:
    """Where the actuator targets are in a physics state vector."""
    start = 1 + model.nq + model.nv
    return slice(start, start + model.nu)


def scene_spec(model: mujoco.MjModel) -> SceneSpec:
    """The frames of the model's bodies with addresses into the physics state, and the shapes on them."""
    frames = [_frame(model, body) for body in range(1, model.nbody)]
    shapes = [_primitive(model, geom) for geom in range(model.ngeom)]
    return SceneSpec(frames=tuple(frames), primitives=tuple(shapes))


def _triple(values: NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z


def _four(values: NDArray[np.float64]) -> tuple[float, float, float, float]:
    w, x, y, z = values.tolist()
    return w, x, y, z


def _frame(model: mujoco.MjModel, index: int) -> Frame:
    body = model.body(index)
    joint: JointKind | None = None
    axis, address = (0.0, 0.0, 1.0), -1
    if body.mocapid[0] >= 0:
        joint, address = "mocap", control_slice(model).stop + 7 * int(body.mocapid[0])
    elif body.jntnum[0] == 1:
        found = model.joint(int(body.jntadr[0]))
        joint, axis, address = _JOINTS[int(found.type[0])], _triple(found.axis), 1 + int(found.qposadr[0])
    elif body.jntnum[0] > 1:
        raise ConfigurationError(f"body '{body.name}' has {body.jntnum[0]} joints; expected one, so split the body")
    # MuJoCo numbers the world as body 0, the scene as -1.
    parent = int(body.parentid[0]) - 1
    return Frame(body.name, parent, _triple(body.pos), _four(body.quat), joint, axis, address)


def _primitive(model: mujoco.MjModel, index: int) -> Primitive:
    geom = model.geom(index)
    return Primitive(
        name=geom.name,
        frame=int(geom.bodyid[0]) - 1,
        shape=_SHAPES[int(geom.type[0])],
        size=_triple(geom.size),
        position=_triple(geom.pos),
        quaternion=_four(geom.quat),
        rgba=_four(geom.rgba.astype(np.float64)),
    )
