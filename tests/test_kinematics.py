"""Forward kinematics against rotation matrices and closed forms."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robotrl import kinematics
from robotrl.specs import Frame, SceneSpec

RNG = np.random.default_rng(0)


def random_quaternions(*lead: int) -> np.ndarray:
    q = RNG.normal(size=(*lead, 4))
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def scipy_rotation(q: np.ndarray) -> Rotation:
    return Rotation.from_quat(q.reshape(-1, 4)[:, [1, 2, 3, 0]])


def test_product_and_rotation_agree_with_matrices():
    a, b, v = random_quaternions(5, 2), random_quaternions(5, 2), RNG.normal(size=(5, 2, 3))
    product = kinematics.quaternion_multiply(a, b)
    np.testing.assert_allclose(
        scipy_rotation(product).as_matrix(), (scipy_rotation(a) * scipy_rotation(b)).as_matrix(), atol=1e-12
    )
    np.testing.assert_allclose(
        kinematics.rotate(a, v).reshape(-1, 3), scipy_rotation(a).apply(v.reshape(-1, 3)), atol=1e-12
    )
    np.testing.assert_allclose(
        kinematics.quaternion_to_matrix(a).reshape(-1, 3, 3), scipy_rotation(a).as_matrix(), atol=1e-12
    )


def test_rotation_vectors_and_matrices_convert_both_ways():
    q = random_quaternions(20)
    vectors = scipy_rotation(q).as_rotvec()
    np.testing.assert_allclose(kinematics.rotation_vector(kinematics.quaternion_to_matrix(q)), vectors, atol=1e-9)
    np.testing.assert_allclose(
        kinematics.matrix_from_rotation_vector(vectors), kinematics.quaternion_to_matrix(q), atol=1e-12
    )
    np.testing.assert_array_equal(kinematics.rotation_vector(np.eye(3)), np.zeros(3))


def test_quaternions_come_back_from_matrices_even_at_half_turns():
    half_turns = np.concatenate([np.zeros((3, 1)), np.eye(3)], axis=1)
    q = np.concatenate([random_quaternions(50), half_turns, np.eye(4)[:1]])
    q = np.where(q[:, :1] < 0, -q, q)
    np.testing.assert_allclose(kinematics.quaternion_from_matrix(kinematics.quaternion_to_matrix(q)), q, atol=1e-12)


def test_yaw_turns_about_z():
    q = kinematics.quaternion_from_yaw(np.array([np.pi / 2]))
    np.testing.assert_allclose(kinematics.rotate(q, np.array([[1.0, 0, 0]])), [[0, 1, 0]], atol=1e-12)


SCENE = SceneSpec(
    frames=(
        Frame("arm", -1, (0.0, 0.0, 0.1), joint="hinge", axis=(0.0, 0.0, 1.0), address=0),
        Frame("rail", 0, (0.2, 0.0, 0.0), joint="slide", axis=(1.0, 0.0, 0.0), address=1),
        Frame("tip", 1, (0.0, 0.0, -0.05)),
        Frame("ball", -1, joint="free", address=2),
    ),
    primitives=(),
)


def test_poses_follow_hinge_slide_and_free_joints():
    physics = np.concatenate([[np.pi / 2, 0.3], [1, 2, 3], [1, 0, 0, 0]])[None]
    position, quaternion = kinematics.poses(SCENE, physics)
    np.testing.assert_allclose(position[0], [[0, 0, 0.1], [0, 0.5, 0.1], [0, 0.5, 0.05], [1, 2, 3]], atol=1e-12)
    np.testing.assert_allclose(quaternion[0, 2], kinematics.quaternion_from_yaw(np.array(np.pi / 2)), atol=1e-12)


def test_hinges_turn_about_any_axis_beside_each_other():
    axes = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.6, 0.0, 0.8), (0.48, 0.6, 0.64)]
    turns = [tuple(float(v) for v in q) for q in random_quaternions(len(axes))]
    frames = [
        Frame(f"hinge{i}", i - 1, (0.1, 0.2, 0.3), turn, "hinge", axis, i)
        for i, (axis, turn) in enumerate(zip(axes, turns, strict=True))
    ]
    angles = RNG.uniform(-3, 3, size=(6, len(axes)))
    found = kinematics.ForwardKinematics(SceneSpec(tuple(frames), ()))(angles)
    world = np.tile(np.eye(4), (6, 1, 1))
    for i, (axis, turn) in enumerate(zip(axes, turns, strict=True)):
        local = np.tile(np.eye(4), (6, 1, 1))
        fixed = scipy_rotation(np.array(turn)[None])
        local[:, :3, :3] = (fixed * Rotation.from_rotvec(angles[:, i, None] * np.array(axis))).as_matrix()
        local[:, :3, 3] = (0.1, 0.2, 0.3)
        world = world @ local
        np.testing.assert_allclose(found[:, i], world, atol=1e-12)


@pytest.mark.parametrize("lead", [(), (1,), (7,), (64, 3)])
def test_batches_of_any_shape_have_the_same_bits(lead):
    physics = RNG.normal(size=(64, 3, 9))
    physics[..., 5:] /= np.linalg.norm(physics[..., 5:], axis=-1, keepdims=True)
    everything = kinematics.poses(SCENE, physics)
    part = physics[tuple(slice(n) for n in lead)] if lead else physics[0, 0]
    for whole, some in zip(everything, kinematics.poses(SCENE, part), strict=True):
        expected = whole[tuple(slice(n) for n in lead)] if lead else whole[0, 0]
        np.testing.assert_array_equal(some, expected)


def test_chosen_frames_equal_the_same_frames_of_all():
    physics = RNG.normal(size=(4, 9))
    position, quaternion = kinematics.poses(SCENE, physics, frames=(3, 2))
    all_position, all_quaternion = kinematics.poses(SCENE, physics)
    np.testing.assert_array_equal(position, all_position[:, [3, 2]])
    np.testing.assert_array_equal(quaternion, all_quaternion[:, [3, 2]])
