"""The scene description against MuJoCo's own kinematics, and the arm against the Panda's data sheet."""

import mujoco
import numpy as np
import pytest

from robotrl import kinematics
from robotrl.errors import ConfigurationError
from sim import scene
from sim.ik import ArmKinematics
from sim.robots import PANDA
from sim.tasks.base import Task, View
from sim.tasks.insert import Insert
from sim.tasks.pick_place import PickPlace

ARM = PANDA.arms[0]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("task", [Insert(), PickPlace()], ids=lambda t: t.name)
def test_frames_are_where_mujoco_has_them(task: Task):
    model = scene.compile_model(task.name, PANDA, task.objects(PANDA))
    data, description = mujoco.MjData(model), scene.scene_spec(model)
    data.qpos[:7] = RNG.uniform(ARM.low, ARM.high)
    data.qpos[7:9] = 0.01, 0.03
    data.qpos[9:] = *RNG.normal(size=3), *(q := RNG.normal(size=4)) / np.linalg.norm(q)
    data.mocap_pos[:] = RNG.normal(size=3)
    mujoco.mj_forward(model, data)
    physics = np.zeros(scene.physics_size(model))
    mujoco.mj_getState(model, data, physics, scene.PHYSICS)
    position, quaternion = kinematics.poses(description, physics)
    np.testing.assert_allclose(position, data.xpos[1:], atol=1e-12)
    np.testing.assert_allclose(kinematics.quaternion_to_matrix(quaternion), data.xmat[1:].reshape(-1, 3, 3), atol=1e-12)
    # Shapes too: pose every primitive and compare with the geoms.
    for index, shape in enumerate(description.primitives):
        at, turn = np.zeros(3), np.array([1.0, 0, 0, 0])
        if shape.frame >= 0:
            at, turn = position[shape.frame], quaternion[shape.frame]
        np.testing.assert_allclose(
            at + kinematics.rotate(turn, np.array(shape.position)), data.geom_xpos[index], atol=1e-9
        )


def test_the_arm_has_the_kinematics_of_the_panda():
    # Modified Denavit-Hartenberg parameters (a, d, alpha) of the data sheet, and the flange.
    table = [
        (0, 0.333, 0),
        (0, 0, -np.pi / 2),
        (0, 0.316, np.pi / 2),
        (0.0825, 0, np.pi / 2),
        (-0.0825, 0.384, -np.pi / 2),
        (0, 0, np.pi / 2),
        (0.088, 0, np.pi / 2),
    ]
    joints = RNG.uniform(ARM.low, ARM.high, (5, 7))
    arm = ArmKinematics(scene.scene_spec(scene.compile_model("bare", PANDA, "")), ARM)
    position, _, _ = arm.forward(joints)
    for row, q in enumerate(joints):
        pose = np.eye(4)
        for (a, d, alpha), theta in zip(table, q, strict=True):
            c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
            pose = pose @ np.array(
                [[c, -s, 0, a], [s * ca, c * ca, -sa, -d * sa], [s * sa, c * sa, ca, d * ca], [0, 0, 0, 1]]
            )
        tool = pose @ np.array([0, 0, 0.107 + 0.1034, 1])
        np.testing.assert_allclose(position[row], tool[:3], atol=1e-9)


def test_the_jacobian_is_the_derivative():
    arm = ArmKinematics(scene.scene_spec(scene.compile_model("bare", PANDA, "")), ARM)
    joints = RNG.uniform(ARM.low, ARM.high, (1, 7))
    position, rotation, jacobian = arm.forward(joints)
    for i in range(7):
        moved, turned, _ = arm.forward(joints + 1e-6 * np.eye(7)[i])
        np.testing.assert_allclose((moved - position) / 1e-6, jacobian[:, :3, i], atol=1e-5)
        turn = kinematics.rotation_vector(turned @ np.swapaxes(rotation, 1, 2))
        np.testing.assert_allclose(turn / 1e-6, jacobian[:, 3:, i], atol=1e-4)


def test_inverse_kinematics_moves_the_tool_as_told():
    arm = ArmKinematics(scene.scene_spec(scene.compile_model("bare", PANDA, "")), ARM)
    joints = np.array(ARM.home) + RNG.uniform(-0.1, 0.1, (20, 7))
    shift, turn = RNG.uniform(-0.03, 0.03, (20, 3)), RNG.uniform(-0.1, 0.1, (20, 3))
    position, rotation, _ = arm.forward(joints)
    found, heading, _ = arm.forward(arm.reach(joints, shift, turn, iterations=10))
    np.testing.assert_allclose(found, position + shift, atol=1e-4)
    np.testing.assert_allclose(kinematics.rotation_vector(heading @ np.swapaxes(rotation, 1, 2)), turn, atol=1e-3)


def test_inverse_kinematics_stays_within_the_limits_for_goals_out_of_reach():
    arm = ArmKinematics(scene.scene_spec(scene.compile_model("bare", PANDA, "")), ARM)
    joints = np.array([ARM.home])
    for _ in range(50):
        joints = arm.reach(joints, np.array([[0.3, 0.3, 0.3]]), np.array([[1.0, 1.0, 1.0]]))
        assert np.isfinite(joints).all()
        assert (joints >= ARM.low).all()
        assert (joints <= ARM.high).all()


def test_two_mocap_bodies_are_refused():
    bodies = "".join(f'<body name="{n}" mocap="true"><geom size="0.1"/></body>' for n in "ab")
    with pytest.raises(ConfigurationError, match="mocap"):
        scene.compile_model("two", PANDA, bodies)


def test_a_body_with_two_joints_is_refused():
    body = '<body name="b"><joint axis="1 0 0"/><joint axis="0 1 0"/><geom size="0.1"/></body>'
    with pytest.raises(ConfigurationError, match="split the body"):
        scene.scene_spec(scene.compile_model("double", PANDA, body))


def test_the_servos_follow_a_step_within_half_a_second():
    model = scene.compile_model("bare", PANDA, "")
    data = mujoco.MjData(model)
    data.qpos[:7] = np.array(ARM.home)
    data.ctrl[:7] = np.array(ARM.home) + 0.05
    mujoco.mj_step(model, data, 10 * PANDA.substeps)
    np.testing.assert_allclose(data.qpos[:7], data.ctrl[:7], atol=0.001)
    assert np.abs(data.qfrc_actuator[:7]).max() <= 87.0


def test_view_slices_address_what_they_say():
    model = scene.compile_model(Insert().name, PANDA, Insert().objects(PANDA))
    view = View.of(model, PANDA)
    place = view.columns[""]
    physics = Insert().draw(view, np.random.default_rng(0))
    np.testing.assert_array_equal(physics[place.joints], physics[place.joint_targets])
    np.testing.assert_array_equal(physics[place.fingers], physics[place.finger_targets])
    assert view.opening(physics) == pytest.approx(2 * physics[place.fingers][0])
    np.testing.assert_array_equal(physics[place.velocities], 0.0)
