"""A 7-DoF arm with the kinematics and limits of the Franka Emika Panda, built from primitive shapes.

Link frames follow the modified Denavit-Hartenberg parameters and joint limits of
https://frankaemika.github.io/docs/control_parameters.html: d1 0.333, d3 0.316, a4 0.0825, a5 -0.0825, d5 0.384,
a7 0.088 and the flange at 0.107 m. Link masses are rounded; gravity is compensated, as the real controller does.
"""

import numpy as np

from robotrl.specs import ArraySpec
from robotrl.types import Float32, Float64

JOINTS = tuple(f"joint{i}" for i in range(1, 8))
LOW = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
"""Lower joint limits, rad."""
HIGH = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
"""Upper joint limits, rad."""
MAX_VELOCITY = np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61])
"""Joint velocity limits, rad/s."""
MAX_TORQUE = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
"""Joint torque limits, Nm."""
STIFFNESS = (4500, 4500, 3500, 3500, 600, 600, 600)
"""Position servo gains, Nm/rad; damping is a tenth of them, so the arm follows with a time constant of 0.1 s.

At 2,000 the wrist servos hit their torque limit in every fast motion, and the tool strays by millimetres.
"""
ROTOR_INERTIA = 0.5
"""Of the motors as felt at the joints, kg m². With 0.1 a saturated wrist servo oscillates in MuJoCo 4."""
MAX_OPENING = 0.08
"""Largest distance between the finger pads, m."""
FINGER_STIFFNESS = 1500
"""N/m. At 600 the peg creeps out of the grasp within a transfer."""
HOME = np.array([0.0, 0.04, 0.0, -2.33, 0.0, 2.37, np.pi / 4])
"""Posture with the tool pointing down over the middle of the table, rad."""
TOOL = "tool"
"""Name of the frame between the finger pads: z along the approach direction, y along the finger motion."""

ACTION = ArraySpec(
    name="action",
    elements=(*JOINTS, "gripper"),
    units=("rad",) * 7 + ("m",),
    low=(*LOW.tolist(), 0.0),
    high=(*HIGH.tolist(), MAX_OPENING),
)
"""Absolute joint targets and the distance between the finger pads."""

_WHITE, _GREY, _DARK = "0.93 0.94 0.95 1", "0.55 0.57 0.6 1", "0.2 0.22 0.25 1"

# Of every link: position and quaternion in the previous one, mass, and its shapes (type, radius, from-to, colour).
_LINKS = (
    ("0 0 0.333", "1 0 0 0", 3.0, (("capsule", "0.058", "0 0 -0.17 0 0 -0.03", _WHITE),)),
    (
        "0 0 0",
        "1 -1 0 0",
        3.0,
        (("capsule", "0.058", "0 0 -0.05 0 0 0.05", _GREY), ("capsule", "0.055", "0 -0.06 0 0 -0.18 0", _WHITE)),
    ),
    ("0 -0.316 0", "1 1 0 0", 3.0, (("capsule", "0.053", "0.02 0 -0.08 0.06 0 -0.02", _WHITE),)),
    (
        "0.0825 0 0",
        "1 1 0 0",
        3.0,
        (
            ("capsule", "0.053", "0 0 -0.04 0 0 0.04", _GREY),
            ("capsule", "0.05", "-0.04 0.04 0 -0.0825 0.11 0", _WHITE),
        ),
    ),
    ("-0.0825 0.384 0", "1 -1 0 0", 2.5, (("capsule", "0.048", "0 0.01 -0.24 0 0.05 -0.06", _WHITE),)),
    (
        "0 0 0",
        "1 1 0 0",
        1.5,
        (("capsule", "0.046", "0 0 -0.05 0 0 0.04", _GREY), ("capsule", "0.045", "0.04 0 0 0.088 0 0", _WHITE)),
    ),
    ("0.088 0 0", "1 1 0 0", 0.7, (("cylinder", "0.044", "0 0 0.02 0 0 0.107", _GREY),)),
)


def _finger(side: str, turn: str) -> str:
    """One finger: a slim body that may touch anything, and a wide pad with high friction."""
    return f"""
      <body name="{side}_finger" pos="0 0 0.0584" quat="{turn}" gravcomp="1">
        <joint name="{side}_finger" type="slide" axis="0 1 0" range="0 0.04" damping="5" armature="0.1"/>
        <geom name="{side}_finger" class="solid" type="box" size="0.01 0.007 0.018" pos="0 0.011 0.014" mass="0.04"
              rgba="{_GREY}"/>
        <geom name="{side}_pad" class="pad" type="box" size="0.0125 0.005 0.015" pos="0 0.005 0.045" mass="0.04"
              rgba="{_DARK}"/>
      </body>"""


def body_xml() -> str:
    """The arm with its gripper as a body tree for the world body; its base stands in the origin."""
    xml = f"""
    <geom name="base" class="shape" type="cylinder" size="0.075 0.07" pos="0 0 0.07" rgba="{_GREY}"/>"""
    for index, (position, quaternion, mass, shapes) in enumerate(_LINKS, start=1):
        low, high, torque = LOW[index - 1], HIGH[index - 1], MAX_TORQUE[index - 1]
        xml += f"""
    <body name="link{index}" pos="{position}" quat="{quaternion}" gravcomp="1">
      <joint name="joint{index}" axis="0 0 1" range="{low} {high}" damping="1" armature="{ROTOR_INERTIA}"
             actuatorfrcrange="{-torque} {torque}"/>"""
        for k, (kind, radius, line, rgba) in enumerate(shapes):
            xml += f"""
      <geom name="link{index}_{k}" class="shape" type="{kind}" size="{radius}" fromto="{line}"
            mass="{mass / len(shapes)}" rgba="{rgba}"/>"""
    half = np.pi / 8
    xml += f"""
    <body name="hand" pos="0 0 0.107" quat="{np.cos(half)} 0 0 {-np.sin(half)}" gravcomp="1">
      <geom name="hand" class="solid" type="box" size="0.025 0.1 0.028" pos="0 0 0.03" mass="0.7" rgba="{_WHITE}"/>
      <body name="{TOOL}" pos="0 0 0.1034"/>{_finger("left", "1 0 0 0")}{_finger("right", "0 0 0 1")}
    </body>"""
    return xml + "</body>" * len(_LINKS)


def actuator_xml() -> str:
    """Position servos of the joints and of both fingers, with torque limits."""
    xml = ""
    for name, gain in zip(JOINTS, STIFFNESS, strict=True):
        xml += f"""
    <position name="{name}" joint="{name}" kp="{gain}" kv="{gain / 10}"/>"""
    for side in ("left", "right"):
        xml += f"""
    <position name="{side}_finger" joint="{side}_finger" kp="{FINGER_STIFFNESS}" kv="{FINGER_STIFFNESS / 10}"
              forcerange="-70 70"/>"""
    return xml


def controls(actions: Float32) -> Float64:
    """Actuator targets (..., 9) of `actions` (..., 8): each finger goes half of the opening."""
    half = 0.5 * actions[..., 7:].astype(np.float64)
    return np.concatenate([actions[..., :7].astype(np.float64), half, half], axis=-1)


def actions_of(targets: Float64) -> Float32:
    """The actions (..., 8) that `controls` turns into these actuator targets (..., 9)."""
    return np.concatenate([targets[..., :7], targets[..., 7:8] + targets[..., 8:9]], axis=-1).astype(np.float32)


def limit_rate(actions: Float32, previous: Float32, period_s: float) -> Float32:
    """Keep the joint targets of `actions` (n, K, 8) within the velocity limits.

    Args:
        actions: targets of K control ticks, within the bounds of `ACTION`.
        previous: (n, 8) the targets in force before the first tick.
        period_s: length of a control tick.

    Returns:
        (n, K, 8) float32: no joint target moves by more than its velocity limit times `period_s` in a tick.
    """
    limit = np.append(MAX_VELOCITY * period_s, MAX_OPENING).astype(np.float32)
    limited = np.empty_like(actions)
    for k in range(actions.shape[1]):
        previous = np.clip(actions[:, k], previous - limit, previous + limit)
        limited[:, k] = previous
    return limited
