"""What every robot must be: its frames, its servos, its inverse kinematics and its gripper."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from robotrl import kinematics
from robotrl.errors import ConfigurationError
from robotrl.seeds import seed_range
from sim import scene
from sim.environment import MujocoEnvironment
from sim.ik import ArmKinematics
from sim.robots import ALOHA, ROBOTS, SO101, Arm, Robot
from sim.tasks.base import Task, View
from sim.tasks.handover import Handover
from sim.tasks.reach import Reach

ARMS = [(robot, arm) for robot in ROBOTS.values() for arm in robot.arms]


def name_of(part: Robot | Arm) -> str:
    return part.name if isinstance(part, Robot) else part.prefix or "arm"


def bare(robot: Robot) -> mujoco.MjModel:
    return scene.compile_model("bare", robot, "")


def kinematics_of(robot: Robot, arm: Arm) -> ArmKinematics:
    return ArmKinematics(scene.scene_spec(bare(robot)), arm)


def near_home(arm: Arm, count: int, spread_rad: float) -> np.ndarray:
    """Joints (count, J) rad around the home of `arm`, within the limits."""
    joints = np.array(arm.home) + np.random.default_rng(0).uniform(-spread_rad, spread_rad, (count, len(arm.home)))
    return np.clip(joints, arm.low, arm.high)


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=name_of)
def test_the_time_step_divides_a_control_tick(robot: Robot):
    assert robot.substeps * robot.timestep_s * robot.control_hz == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=name_of)
def test_actions_come_back_from_the_actuator_targets(robot: Robot):
    low, high = np.float32(robot.action.low), np.float32(robot.action.high)
    actions = np.random.default_rng(0).uniform(low, high, (5, robot.action.size)).astype(np.float32)
    np.testing.assert_allclose(robot.actions_of(robot.controls(actions)), actions, rtol=1e-6)


@pytest.mark.parametrize(("robot", "arm"), ARMS, ids=name_of)
def test_the_home_is_within_the_limits_and_the_tool_there_points_down_over_the_table(robot: Robot, arm: Arm):
    home, spread = np.array(arm.home), np.array(arm.spread)
    assert (home - spread >= arm.low).all() and (home + spread <= arm.high).all()
    position, rotation, _ = kinematics_of(robot, arm).forward(home[None])
    assert rotation[0, 2, 2] < -0.9
    half_x, half_y, x, y = robot.table
    assert abs(position[0, 0] - x) < half_x and abs(position[0, 1] - y) < half_y and position[0, 2] > 0.06


@pytest.mark.parametrize(("robot", "arm"), ARMS, ids=name_of)
def test_the_jacobian_is_the_derivative(robot: Robot, arm: Arm):
    chain = kinematics_of(robot, arm)
    joints = np.random.default_rng(1).uniform(arm.low, arm.high, (1, len(arm.home)))
    position, rotation, jacobian = chain.forward(joints)
    for i in range(len(arm.home)):
        moved, turned, _ = chain.forward(joints + 1e-6 * np.eye(len(arm.home))[i])
        np.testing.assert_allclose((moved - position) / 1e-6, jacobian[:, :3, i], atol=1e-5)
        turn = kinematics.rotation_vector(turned @ np.swapaxes(rotation, 1, 2))
        np.testing.assert_allclose(turn / 1e-6, jacobian[:, 3:, i], atol=1e-5)


@pytest.mark.parametrize(("robot", "arm"), ARMS, ids=name_of)
def test_inverse_kinematics_reaches_poses_that_the_arm_can_have(robot: Robot, arm: Arm):
    chain = kinematics_of(robot, arm)
    start, goal = near_home(arm, 30, 0.1), near_home(arm, 30, 0.3)[::-1]
    place, heading, _ = chain.forward(goal)
    joints = start
    for _ in range(20):
        position, rotation, _ = chain.forward(joints)
        turn = kinematics.rotation_vector(heading @ np.swapaxes(rotation, 1, 2))
        joints = chain.reach(joints, place - position, turn)
    position, rotation, _ = chain.forward(joints)
    assert np.abs(position - place).max() < 0.002
    assert np.abs(kinematics.rotation_vector(heading @ np.swapaxes(rotation, 1, 2))).max() < 0.03


def test_an_arm_of_five_joints_comes_to_the_place_when_it_cannot_have_the_direction_too():
    (arm,) = SO101.arms
    chain = kinematics_of(SO101, arm)
    joints = np.array([arm.home])
    place = chain.forward(joints)[0] + np.array([[0.0, 0.0, 0.03]])
    for _ in range(20):
        position, rotation, _ = chain.forward(joints)
        sideways = 0.1 * rotation[:, :, 1]
        joints = chain.reach(joints, place - position, sideways)
    assert np.abs(chain.forward(joints)[0] - place).max() < 0.005


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=name_of)
def test_the_servos_follow_a_step_within_half_a_second(robot: Robot):
    model = bare(robot)
    data, view = mujoco.MjData(model), View.of(model, robot)
    mujoco.mj_setState(model, data, view.at_rest(), scene.PHYSICS)
    data.ctrl[:] += 0.05 * np.array([name in {j for a in robot.arms for j in a.joints} for name in names(model)])
    mujoco.mj_step(model, data, round(0.5 * robot.control_hz) * robot.substeps)
    np.testing.assert_allclose(data.qpos, data.ctrl, atol=0.001)


def names(model: mujoco.MjModel) -> list[str]:
    return [model.actuator(i).name for i in range(model.nu)]


@pytest.mark.parametrize(
    ("task", "robot"), [(Reach, "panda"), (Reach, "so101"), (Handover, "aloha")], ids=["panda", "so101", "aloha"]
)
def test_no_world_diverges_under_random_actions_of_the_full_range(task: type[Task], robot: str):
    env = MujocoEnvironment(task(time_limit_s=4.0), 8, robot=robot)
    everyone = np.ones(8, np.bool_)
    env.reset(seed_range("train").block(8), everyone)
    low, high = np.float32(env.spec.action.low), np.float32(env.spec.action.high)
    rng, running = np.random.default_rng(0), everyone
    while running.any():
        held = np.repeat(rng.uniform(low, high, (8, 1, len(low))).astype(np.float32), 5, axis=1)
        transition = env.step(held, running)
        assert "diverged" not in transition.failure
        assert np.abs(transition.privileged[..., env.spec.privileged.slice("velocity")]).max() < 15.0
        running = running & ~(transition.terminated | transition.truncated).any(1)
    env.close()


@pytest.mark.parametrize(("robot", "arm"), ARMS, ids=name_of)
def test_the_opening_is_the_distance_of_the_pads_and_its_middle_is_where_the_robot_says(robot: Robot, arm: Arm):
    model = bare(robot)
    data, view = mujoco.MjData(model), View.of(model, robot)
    pads = [i for i in range(model.ngeom) if model.geom(i).name in pad_names(arm)]
    assert len(pads) == 2
    for opening in np.linspace(0.0, arm.gripper.max_opening_m, 8):
        physics = view.at_rest({a.prefix: (np.array(a.home), opening) for a in robot.arms})
        assert view.opening(physics, arm) == pytest.approx(opening)
        mujoco.mj_setState(model, data, physics, scene.PHYSICS)
        mujoco.mj_forward(model, data)
        tool = data.body(arm.tool)
        across = tool.xmat.reshape(3, 3)[:, 1]
        inner = [inner_face(model, data, *pair) for pair in (pads, pads[::-1])]
        faces = sorted((face - tool.xpos) @ across for face in inner)
        assert faces[1] - faces[0] == pytest.approx(opening, abs=0.003)
        assert 0.5 * (faces[0] + faces[1]) == pytest.approx(float(arm.gripper.middle(np.array(opening))), abs=0.002)


def pad_names(arm: Arm) -> set[str]:
    return {f"{arm.prefix}{stem}_pad" for stem in ("left", "right", "fixed", "moving")}


def inner_face(model: mujoco.MjModel, data: mujoco.MjData, pad: int, other: int) -> np.ndarray:
    """The middle of the face of box `pad`, across its thinnest side, that is nearest to the `other` one, (3,) m."""
    thin = int(model.geom_size[pad].argmin())
    way = data.geom_xmat[pad].reshape(3, 3)[:, thin] * model.geom_size[pad][thin]
    faces = [data.geom_xpos[pad] + way, data.geom_xpos[pad] - way]
    return min(faces, key=lambda face: float(np.linalg.norm(face - data.geom_xpos[other])))


def wrist_view(robot: Robot, arm: Arm, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pose (4, 4) of the arm's wrist camera in the world with the arm at `joints` (J,) rad, and of its tool."""
    model = bare(robot)
    data = mujoco.MjData(model)
    for name, angle in zip(arm.joints, joints, strict=True):
        data.joint(name).qpos = angle
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)
    camera, tool = data.camera(f"{arm.prefix}wrist"), data.body(arm.tool)
    poses = np.tile(np.eye(4), (2, 1, 1))
    for pose, turn, place in zip(poses, (camera.xmat, tool.xmat), (camera.xpos, tool.xpos), strict=True):
        pose[:3, :3], pose[:3, 3] = turn.reshape(3, 3), place
    return poses[0], poses[1]


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=name_of)
def test_a_scene_has_two_cameras_that_stand_and_one_on_every_hand(robot: Robot):
    model = bare(robot)
    found = {model.camera(i).name: model.body(model.cam_bodyid[i]).name for i in range(model.ncam)}
    assert found == {"front": "world", "side": "world", **{f"{arm.prefix}wrist": arm.tool for arm in robot.arms}}


@pytest.mark.parametrize(("robot", "arm"), ARMS, ids=name_of)
def test_the_wrist_camera_moves_with_the_hand(robot: Robot, arm: Arm):
    seen = [wrist_view(robot, arm, joints) for joints in near_home(arm, 6, 0.5)]
    on_the_hand = [np.linalg.inv(tool) @ camera for camera, tool in seen]
    np.testing.assert_allclose(on_the_hand, on_the_hand[:1] * 6, atol=1e-9)
    assert np.ptp([camera[:3, 3] for camera, _ in seen], axis=0).min() > 0.05


@pytest.mark.parametrize(("robot", "arm"), ARMS, ids=name_of)
def test_the_wrist_camera_sees_what_is_between_the_pads_and_before_them(robot: Robot, arm: Arm):
    camera, tool = wrist_view(robot, arm, np.array(arm.home))
    half = np.tan(np.radians(bare(robot).camera(f"{arm.prefix}wrist").fovy[0]) / 2)
    ahead = np.array([[0, 0, z, 1] for z in (0.0, 0.05, 0.1, 0.2)])  # m along the approach
    x, y, z, _ = np.linalg.inv(camera) @ tool @ ahead.T
    assert (z < 0).all()  # a camera looks along its negative z axis
    right, up = x / -z / half, y / -z / half
    assert (np.abs(right) < 0.3).all() and (np.abs(up) < 0.8).all()
    assert (np.diff(up) > 0).all()  # the farther ahead, the higher in the picture


def test_the_so101_has_the_link_lengths_of_its_description():
    # Upper arm upright, forearm and hand forward: heights and reaches add up along the chain.
    model = bare(SO101)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    expected = {
        "shoulder": (0.0388, 0.0624),
        "upper_arm": (0.0692, 0.1166),
        "lower_arm": (0.0972, 0.2292),
        "wrist": (0.2321, 0.2344),
        "gripper": (0.2932, 0.2344),
    }
    for link, place in expected.items():
        np.testing.assert_allclose(data.body(link).xpos[[0, 2]], place, atol=2e-4, err_msg=link)
    tool = data.body("tool").xpos.copy()
    assert tool[0] == pytest.approx(0.2932 + 0.0935, abs=2e-4)
    for joint, (axis, sign) in {"shoulder_pan": (1, -1), "shoulder_lift": (2, -1), "elbow_flex": (2, -1)}.items():
        mujoco.mj_resetData(model, data)
        data.joint(joint).qpos[0] = 0.1
        mujoco.mj_forward(model, data)
        assert sign * (data.body("tool").xpos - tool)[axis] > 0.01


def test_the_aloha_has_the_places_and_link_lengths_of_its_description():
    # With all joints at 0 the upper arms stand, and forearms and hands point at each other.
    model = bare(ALOHA)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    expected = {
        "shoulder_link": (0.0, 0.079),
        "upper_arm_link": (0.0, 0.12705),
        "upper_forearm_link": (0.05955, 0.42705),
        "lower_forearm_link": (0.25955, 0.42705),
        "wrist_link": (0.35955, 0.42705),
        "gripper_link": (0.429294, 0.42705),
        "tool": (0.579294, 0.42705),
    }
    for side, sign in (("left", -1), ("right", 1)):
        for link, (ahead, height) in expected.items():
            place = sign * (0.469 - ahead), -0.019, 0.02 + height
            np.testing.assert_allclose(data.body(f"{side}_{link}").xpos, place, atol=1e-9, err_msg=f"{side} {link}")
        along = data.body(f"{side}_tool").xmat.reshape(3, 3)
        np.testing.assert_allclose(along[:, 2], (-sign, 0.0, 0.0), atol=1e-9)
        np.testing.assert_allclose(np.abs(along[:, 1]), (0.0, 1.0, 0.0), atol=1e-9)
    for joint in ("shoulder", "elbow", "wrist_angle"):  # down, as in the description
        before = data.body("left_tool").xpos[2]
        data.joint(f"left_{joint}").qpos[0] = 0.1
        mujoco.mj_forward(model, data)
        assert data.body("left_tool").xpos[2] < before - 0.01


def test_aloha_actions_are_called_as_the_motors_in_lerobot():
    motors = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
    assert ALOHA.action.elements == tuple(f"{side}_{motor}" for side in ("left", "right") for motor in motors)


def test_the_hands_of_the_aloha_do_not_pass_through_each_other():
    model = bare(ALOHA)
    data, view = mujoco.MjData(model), View.of(bare(ALOHA), ALOHA)
    # Both tools over the middle of the table.
    reaching = {arm.prefix: (np.array([0.0, 0.45, -0.2, 0.0, 1.32, 0.0]), 0.0) for arm in ALOHA.arms}
    mujoco.mj_setState(model, data, view.at_rest(reaching), scene.PHYSICS)
    mujoco.mj_forward(model, data)
    assert data.ncon > 0
    touching = {model.geom(g).name.split("_")[0] for g in data.contact.geom[0]}
    assert touching == {"left", "right"}


def test_so101_actions_are_called_as_the_motors_in_lerobot():
    motors = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
    assert SO101.action.elements == motors


@pytest.mark.parametrize(("part", "found"), [("bodies", "joints"), ("actuators", "actuators")])
def test_a_model_that_does_not_begin_with_the_arm_is_refused(part: str, found: str):
    first = '<body name="odd"><joint name="odd"/><geom size="0.01"/></body>'
    servo = '<position name="odd" joint="wrist_roll" kp="1"/>'
    added = {"bodies": first + SO101.bodies, "actuators": servo + SO101.actuators}[part]
    robot = replace(SO101, **{part: added})
    with pytest.raises(ConfigurationError, match=f"expected its model to begin with the {found}.* got .*odd"):
        View.of(bare(robot), robot)
