"""A low-cost arm with the kinematics and limits of the SO-101: five joints and a jaw, six motors as LeRobot calls them.

Link lengths and joint limits are those of the description at https://github.com/TheRobotStudio/SO-ARM100, rounded to
0.1 mm; the frames lie in the plane of the arm. With all joints at 0 the upper arm stands and the forearm and the hand
point forward; shoulder, elbow and wrist turn down with positive angles, the pan turns to the right. Limits of torque
and speed are those of the STS3215 servo at 12 V. Gravity is compensated: the real servos, some 1,000 Nm/rad stiff, hold
the arm within a fraction of a degree.
"""

import numpy as np

from sim.robots.base import Arm, Gripper, Link, Robot, Workspace, chain_xml, wrist_camera

LOW = (-1.9199, -1.7453, -1.69, -1.6581, -2.7438)
HIGH = (1.9199, 1.7453, 1.69, 1.6581, 2.8412)
MAX_TORQUE = 2.94
"""Of every servo, Nm."""
MAX_VELOCITY = 4.7
"""Of every servo without load, rad/s."""
STIFFNESS = 60.0
"""Position servo gain, Nm/rad; damping is a tenth of it. Much stiffer, the torque limit would rule every motion."""
ROTOR_INERTIA = 0.028
"""Of a motor as felt at its joint, kg m²."""
JAW_STIFFNESS = 5.0
"""Nm/rad: 30 N on a cube of 30 mm when commanded shut."""

_LEVER_M, _HINGE_M = 0.0701, 0.0281
"""From the jaw's hinge to its pad, along the approach and across it from the face of the fixed pad.

So far open, the pad lies straight below the hinge and parallel to the fixed one; between 0 and 70 mm the distance of
the pads is the angle times the lever within 3 mm, within 0.1 mm near the width of the cubes. The real jaw goes on to
100 degrees, where an angle no longer stands for a width.
"""
_PARALLEL_RAD = _HINGE_M / _LEVER_M
_FACE_M, _FIXED_M = -0.0079, 0.015
"""Towards the moving jaw: from the axis of the roll joint to the face of the fixed pad, from there to the tool."""
_DEPTH_M = 0.0935
"""From the frame of the roll joint to the tool, along the approach."""

ARM = Arm(
    prefix="",
    joints=("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll"),
    links=("shoulder", "upper_arm", "lower_arm", "wrist", "gripper"),
    low=LOW,
    high=HIGH,
    max_velocity=(MAX_VELOCITY,) * 5,
    # The tool points down, a little forward, over the middle of the table: upright it gets no higher than 9 cm.
    home=(0.0, -0.53, 0.4, 1.35, 0.0),
    spread=(0.3, 0.08, 0.08, 0.08, 0.2),
    opening=(0.04, 0.055),
    tool="tool",
    gripper=Gripper(("moving_jaw",), max_opening_m=0.07, stiffness=JAW_STIFFNESS, lever_m=_LEVER_M, fixed_m=_FIXED_M),
)

_BODY, _MOTOR, _PAD = "0.96 0.75 0.15 1", "0.13 0.13 0.14 1", "0.2 0.22 0.25 1"

# Of every link: position and quaternion in the previous one, mass, and its shapes (type, size, from-to, colour).
_LINKS = (
    (
        "0.0388 0 0.0624",
        "0 0 1 0",
        0.10,
        (
            ("cylinder", "0.024", "0 0 -0.03 0 0 0", _BODY),
            ("capsule", "0.014", "-0.0304 -0.014 -0.0542 -0.0304 0.014 -0.0542", _MOTOR),
            ("capsule", "0.016", "0 0 -0.03 -0.0304 0 -0.0542", _BODY),
        ),
    ),
    (
        "-0.0304 0 -0.0542",
        "1 -1 1 1",
        0.10,
        (
            ("capsule", "0.013", "0 0 0 0.1 0.004 0", _BODY),
            ("capsule", "0.014", "0.1126 0.028 -0.016 0.1126 0.028 0.016", _MOTOR),
            ("capsule", "0.012", "0.1 0.004 0 0.1126 0.028 0", _BODY),
        ),
    ),
    (
        "0.1126 0.028 0",
        "1 0 0 0",
        0.10,
        (
            ("capsule", "0.012", "0 0 0 0.0052 0.1349 0", _BODY),
            ("capsule", "0.013", "0.0052 0.1349 -0.016 0.0052 0.1349 0.016", _MOTOR),
        ),
    ),
    ("0.0052 0.1349 0", "1 0 0 0", 0.08, (("capsule", "0.013", "0 0 0 0 0.045 0", _BODY),)),
    ("0 0.0611 0", "1 1 0 0", 0.09, (("cylinder", "0.017", "0 0 0.012 0 0 -0.012", _MOTOR),)),
)


def _hand() -> str:
    """What is fixed to the last link: its palm, the fixed jaw with its pad, the tool, and the moving jaw on its hinge.

    The link's z axis points back along the approach, its x axis from the fixed to the moving jaw.
    """
    face, half = _FACE_M, 0.5 * _PARALLEL_RAD
    along = 0.5 * _LEVER_M
    turn = f"{np.cos(half)} {np.cos(half)} {np.sin(half)} {-np.sin(half)}"
    return f"""
      <geom name="palm" class="solid" type="box" size="0.022 0.014 0.016" pos="0.008 0 -0.026" mass="0.05"
            rgba="{_BODY}"/>
      <geom name="fixed_jaw" class="solid" type="box" size="0.004 0.01 0.021" pos="{face - 0.009} 0 -0.061" mass="0.02"
            rgba="{_BODY}"/>
      <geom name="fixed_pad" class="pad" type="box" size="0.003 0.01 0.0125" pos="{face - 0.003} 0 {-_DEPTH_M}"
            mass="0.01" rgba="{_PAD}"/>
      <body name="{ARM.tool}" pos="{face + _FIXED_M} 0 {-_DEPTH_M}" quat="0 1 1 0">{wrist_camera("", 0.05, 0.08, 0.35)}
      </body>
      <body name="moving_jaw" pos="{face + _HINGE_M} 0 {_LEVER_M - _DEPTH_M}" quat="{turn}" gravcomp="1">
        <joint name="moving_jaw" axis="0 0 1" range="0 {ARM.gripper.max_opening_m / _LEVER_M}" damping="0.02"
               armature="0.003"/>
        <geom name="moving_jaw" class="solid" type="box" size="0.004 {along - 0.006} 0.01" pos="0.009 {0.004 - along} 0"
              mass="0.02" rgba="{_BODY}"/>
        <geom name="moving_pad" class="pad" type="box" size="0.003 0.0125 0.01" pos="0.003 {-_LEVER_M} 0" mass="0.01"
              rgba="{_PAD}"/>
      </body>"""


def _bodies() -> str:
    """The arm with its gripper as a body tree for the world body; its base stands in the origin."""
    xml = f"""
    <geom name="base" class="shape" type="box" size="0.04 0.028 0.022" pos="0.012 0 0.022" rgba="{_BODY}"/>
    <geom name="base_motor" class="shape" type="cylinder" size="0.022 0.01" pos="0.0388 0 0.052" rgba="{_MOTOR}"/>"""
    links = [
        Link(
            *described,
            f'range="{low} {high}" damping="0.1" armature="{ROTOR_INERTIA}" '
            f'actuatorfrcrange="{-MAX_TORQUE} {MAX_TORQUE}"',
        )
        for described, low, high in zip(_LINKS, LOW, HIGH, strict=True)
    ]
    return xml + chain_xml(ARM, links, _hand())


def _actuators() -> str:
    """Position servos of the joints and the jaw, with torque limits."""
    xml = ""
    gains = (*(STIFFNESS,) * len(ARM.joints), JAW_STIFFNESS)
    for name, gain in zip((*ARM.joints, *ARM.gripper.joints), gains, strict=True):
        xml += f"""
    <position name="{name}" joint="{name}" kp="{gain}" kv="{gain / 10}" forcerange="{-MAX_TORQUE} {MAX_TORQUE}"/>"""
    return xml


SO101 = Robot(
    name="so101",
    control_hz=30.0,
    timestep_s=1 / 240,
    arms=(ARM,),
    workspace=Workspace(
        objects=(0.165, 0.255, -0.13, 0.03),
        goals=(0.165, 0.205, 0.13, 0.16),
        reach=(0.10, 0.32, -0.22, 0.22),
    ),
    bodies=_bodies(),
    actuators=_actuators(),
    camera='pos="0.62 -0.26 0.4" xyaxes="0.5 0.866 0 -0.45 0.26 0.855" fovy="40"',
    table=(0.26, 0.28, 0.16, 0.0),
    scale=0.75,
)
