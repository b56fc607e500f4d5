"""Two arms that face each other across a table, with the kinematics and limits of ALOHA's ViperX 300s followers.

Places of the bases, link lengths and joint limits are those of the descriptions at
https://github.com/google-deepmind/mujoco_menagerie and https://github.com/Interbotix, masses are rounded. Waist and
rolls turn about the way that the arm points, shoulder, elbow and wrist angle turn down with positive angles; joints are
called as the motors in LeRobot. Limits of torque are those of the XM540 and XM430 servos at 12 V, of which shoulder and
elbow have two each. Gravity is compensated: the real servos hold the arms within a fraction of a degree.

The posture in which the real arms wait, (0, -0.96, 1.16, 0, -0.3, 0), points forward. Here they start as they work
over the table, pointing down.
"""

import numpy as np

from sim.robots.base import Arm, Gripper, Link, Robot, Workspace, chain_xml, wrist_camera

LOW = (-np.pi, -1.85, -1.763, -np.pi, -1.868, -np.pi)
HIGH = (np.pi, 1.257, 1.606, np.pi, 2.234, np.pi)
MAX_TORQUE = (10.6, 21.2, 21.2, 10.6, 10.6, 4.1)
"""Joint torque limits, Nm."""
STIFFNESS = (120, 260, 240, 80, 80, 40)
"""Position servo gains, Nm/rad; damping is a tenth of them, so the arms follow with a time constant of 0.1 s."""
ROTOR_INERTIA = (0.2, 0.4, 0.4, 0.1, 0.1, 0.03)
"""Of the motors as felt at the joints, kg m²."""
FINGER_STIFFNESS = 1500
"""N/m: 23 N on a bar of 30 mm when commanded shut."""
BASE_M, WAIST_M = (0.469, -0.019, 0.02), 0.079
"""Place of the right base, the left one stands at the negative x; and how high the waist is above it."""

_MOTORS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
_LINKS = ("shoulder_link", "upper_arm_link", "upper_forearm_link", "lower_forearm_link", "wrist_link", "gripper_link")
_DEPTH_M = 0.15
"""From the frame of the last link to the tool, along the approach."""
_ROLL = "1 0 0 1"
"""Turns the last link's frame into the tool's."""


def _arm(prefix: str) -> Arm:
    return Arm(
        prefix=prefix,
        joints=tuple(prefix + motor for motor in _MOTORS),
        links=tuple(prefix + link for link in _LINKS),
        low=LOW,
        high=HIGH,
        max_velocity=(np.pi,) * 6,
        # The tool points down, 24 cm from the base and 17 cm above the table.
        home=(0.0, -0.37, 0.57, 0.0, 1.37, 0.0),
        spread=(0.15, 0.08, 0.08, 0.08, 0.08, 0.1),
        opening=(0.05, 0.075),
        tool=f"{prefix}tool",
        gripper=Gripper(
            (f"{prefix}left_finger", f"{prefix}right_finger"), max_opening_m=0.082, stiffness=FINGER_STIFFNESS
        ),
    )


ARMS = _arm("left_"), _arm("right_")

_BODY, _MOTOR, _PAD = "0.2 0.21 0.23 1", "0.42 0.44 0.47 1", "0.75 0.77 0.8 1"

# Of every link: position and quaternion in the previous one, which the first has none of, mass, and its shapes (type,
# size, from-to, colour).
_SHAPES = (
    (
        0.8,
        (
            ("cylinder", "0.045", "0 0 -0.03 0 0 0.015", _BODY),
            ("capsule", "0.03", "0 -0.035 0.048 0 0.035 0.048", _MOTOR),
        ),
    ),
    (
        "0 0 0.04805",
        "1 -1 0 0",
        0.8,
        (("capsule", "0.026", "0 0 0 0 -0.3 0", _BODY), ("capsule", "0.026", "0 -0.3 0 0.05955 -0.3 0", _BODY)),
    ),
    (
        "0.05955 -0.3 0",
        "1 0 0 0",
        0.32,
        (("capsule", "0.028", "0 0 -0.03 0 0 0.03", _MOTOR), ("capsule", "0.023", "0 0 0 0.18 0 0", _BODY)),
    ),
    ("0.2 0 0", "1 0 1 0", 0.41, (("cylinder", "0.026", "0 0 -0.02 0 0 0.07", _MOTOR),)),
    (
        "0 0 0.1",
        "1 0 -1 0",
        0.12,
        (("capsule", "0.022", "0 0 -0.025 0 0 0.025", _MOTOR), ("capsule", "0.016", "0 0 0 0.05 0 0", _BODY)),
    ),
    ("0.069744 0 0", "1 0 1 0", 0.25, (("cylinder", "0.025", "0 0 -0.02 0 0 0.03", _MOTOR),)),
)

_TOUCHES = {"left_": 'contype="5"', "right_": 'conaffinity="6"'}
"""Hands touch objects as those of any robot, and each other."""


def _hand(arm: Arm) -> str:
    """What is fixed to the last link: the tool between the pads, and a rail with two fingers in the same axes.

    These are z along the approach and y along the rail.
    """
    prefix, touches = arm.prefix, _TOUCHES[arm.prefix]
    fingers = ""
    for side, turn in (("left", "1 0 0 0"), ("right", "0 0 0 1")):
        name = f"{prefix}{side}"
        fingers += f"""
        <body name="{name}_finger" pos="0 0 0.07" quat="{turn}" gravcomp="1">
          <joint name="{name}_finger" type="slide" axis="0 1 0" range="0 {0.5 * arm.gripper.max_opening_m}" damping="5"
                 armature="0.1"/>
          <geom name="{name}_finger" class="solid" type="box" size="0.0095 0.006 0.034" pos="0 0.012 0.032" mass="0.05"
                rgba="{_MOTOR}" {touches}/>
          <geom name="{name}_pad" class="pad" type="box" size="0.0115 0.005 0.0125" pos="0 0.005 {_DEPTH_M - 0.07}"
                mass="0.04" rgba="{_PAD}" {touches}/>
        </body>"""
    return f"""
      <body name="{arm.tool}" pos="0 0 {_DEPTH_M}" quat="{_ROLL}">{wrist_camera(prefix, 0.06, 0.11, 0.35)}
      </body>
      <body name="{prefix}hand" quat="{_ROLL}" gravcomp="1">
        <geom name="{prefix}hand" class="solid" type="box" size="0.02 0.06 0.018" pos="0 0 0.05" mass="0.42"
              rgba="{_BODY}" {touches}/>{fingers}
      </body>"""


def _bodies() -> str:
    """Both arms, each on its base; the right one is turned round, so that they face each other."""
    xml, (x, y, z) = "", BASE_M
    for arm, side, turn in zip(ARMS, (-1, 1), ("1 0 0 0", "0 0 0 1"), strict=True):
        waist, *others = _SHAPES
        shapes = (f"{side * x} {y} {z + WAIST_M}", turn, *waist), *others
        links = [
            Link(
                *described,
                f'range="{low} {high}" damping="0.5" armature="{inertia}" actuatorfrcrange="{-torque} {torque}"',
            )
            for described, low, high, inertia, torque in zip(shapes, LOW, HIGH, ROTOR_INERTIA, MAX_TORQUE, strict=True)
        ]
        xml += f"""
    <geom name="{arm.prefix}base" class="shape" type="box" size="0.09 0.06 0.02" pos="{side * (x + 0.03)} {y} {z}"
          rgba="{_BODY}"/>
    <geom name="{arm.prefix}base_motor" class="shape" type="cylinder" size="0.04 0.015" pos="{side * x} {y} {z + 0.035}"
          rgba="{_MOTOR}"/>{chain_xml(arm, links, _hand(arm))}"""
    return xml


def _actuators() -> str:
    """Position servos of the joints and the fingers, with torque limits."""
    xml = ""
    for arm in ARMS:
        for name, gain in zip(arm.joints, STIFFNESS, strict=True):
            xml += f"""
    <position name="{name}" joint="{name}" kp="{gain}" kv="{gain / 10}"/>"""
        for name in arm.gripper.joints:
            xml += f"""
    <position name="{name}" joint="{name}" kp="{FINGER_STIFFNESS}" kv="{FINGER_STIFFNESS / 10}"
              forcerange="-60 60"/>"""
    return xml


ALOHA = Robot(
    name="aloha",
    control_hz=50.0,
    timestep_s=0.005,
    arms=ARMS,
    workspace=Workspace(
        objects=(-0.30, -0.24, -0.12, 0.12),
        goals=(0.24, 0.30, -0.12, 0.12),
        reach=(-0.40, 0.40, -0.32, 0.32),
    ),
    bodies=_bodies(),
    actuators=_actuators(),
    camera='pos="0 -1.15 0.85" xyaxes="1 0 0 0 0.53 0.848" fovy="42"',
    table=(0.6, 0.375, 0.0, 0.0),
)
