"""A 7-DoF arm with the kinematics and limits of the Franka Emika Panda, built from primitive shapes.

Link frames follow the modified Denavit-Hartenberg parameters and joint limits of
https://frankaemika.github.io/docs/control_parameters.html: d1 0.333, d3 0.316, a4 0.0825, a5 -0.0825, d5 0.384,
a7 0.088 and the flange at 0.107 m. Link masses are rounded; gravity is compensated, as the real controller does.
"""

import numpy as np

from sim.robots.base import Arm, Gripper, Link, Robot, Workspace, chain_xml, names, wrist_camera

LOW = (-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973)
HIGH = (2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973)
MAX_TORQUE = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
"""Joint torque limits, Nm."""
STIFFNESS = (4500, 4500, 3500, 3500, 600, 600, 600)
"""Position servo gains, Nm/rad; damping is a tenth of them, so the arm follows with a time constant of 0.1 s.

At 2,000 the wrist servos hit their torque limit in every fast motion, and the tool strays by millimetres.
"""
ROTOR_INERTIA = 0.5
"""Of the motors as felt at the joints, kg m². With 0.1 a saturated wrist servo oscillates in MuJoCo 4."""
FINGER_STIFFNESS = 1500
"""N/m. At 600 the peg creeps out of the grasp within a transfer."""

ARM = Arm(
    prefix="",
    joints=names("joint", range(1, 8)),
    links=names("link", range(1, 8)),
    low=LOW,
    high=HIGH,
    max_velocity=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    # The tool points down over the middle of the table.
    home=(0.0, 0.04, 0.0, -2.33, 0.0, 2.37, np.pi / 4),
    spread=(0.15, 0.08, 0.08, 0.08, 0.08, 0.08, 0.1),
    opening=(0.05, 0.075),
    tool="tool",
    gripper=Gripper(("left_finger", "right_finger"), max_opening_m=0.08, stiffness=FINGER_STIFFNESS),
)

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


def _bodies() -> str:
    """The arm with its gripper as a body tree for the world body; its base stands in the origin."""
    xml = f"""
    <geom name="base" class="shape" type="cylinder" size="0.075 0.07" pos="0 0 0.07" rgba="{_GREY}"/>"""
    links = [
        Link(
            *described,
            f'range="{low} {high}" damping="1" armature="{ROTOR_INERTIA}" actuatorfrcrange="{-torque} {torque}"',
        )
        for described, low, high, torque in zip(_LINKS, LOW, HIGH, MAX_TORQUE, strict=True)
    ]
    half = np.pi / 8
    hand = f"""
    <body name="hand" pos="0 0 0.107" quat="{np.cos(half)} 0 0 {-np.sin(half)}" gravcomp="1">
      <geom name="hand" class="solid" type="box" size="0.025 0.1 0.028" pos="0 0 0.03" mass="0.7" rgba="{_WHITE}"/>
      <body name="{ARM.tool}" pos="0 0 0.1034">{wrist_camera("", 0.07, 0.07, 0.4)}
      </body>{_finger("left", "1 0 0 0")}{_finger("right", "0 0 0 1")}
    </body>"""
    return xml + chain_xml(ARM, links, hand)


def _actuators() -> str:
    """Position servos of the joints and of both fingers, with torque limits."""
    xml = ""
    for name, gain in zip(ARM.joints, STIFFNESS, strict=True):
        xml += f"""
    <position name="{name}" joint="{name}" kp="{gain}" kv="{gain / 10}"/>"""
    for side in ("left", "right"):
        xml += f"""
    <position name="{side}_finger" joint="{side}_finger" kp="{FINGER_STIFFNESS}" kv="{FINGER_STIFFNESS / 10}"
              forcerange="-70 70"/>"""
    return xml


PANDA = Robot(
    name="panda",
    control_hz=20.0,
    timestep_s=0.005,
    arms=(ARM,),
    workspace=Workspace(
        objects=(0.41, 0.59, -0.24, 0.06),
        goals=(0.44, 0.56, 0.19, 0.27),
        reach=(0.30, 0.72, -0.36, 0.36),
    ),
    bodies=_bodies(),
    actuators=_actuators(),
    camera='pos="1.35 -0.5 0.75" xyaxes="0.42 0.907 0 -0.42 0.195 0.886" fovy="36"',
    table=(0.5, 0.5, 0.35, 0.0),
)
