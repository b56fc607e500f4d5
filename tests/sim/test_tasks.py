"""Starts, success and failure of the tasks, on states built by hand."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

import sim.tasks
from robotrl import kinematics
from robotrl.errors import ConfigurationError
from robotrl.types import Float64
from sim import scene
from sim.robots import ALOHA, Robot, robot_called
from sim.tasks import bimanual_insert, handover
from sim.tasks.base import FAILURES, Pose, Task, View, array_spec, square_yaw, stack
from sim.tasks.bimanual_insert import BimanualInsert
from sim.tasks.handover import Handover
from sim.tasks.insert import GRASP_M, Insert
from sim.tasks.pick_place import SIDE_M, PickPlace
from sim.tasks.reach import Reach
from sim.tasks.sort import HELD_OUT, ITEMS, ORDERS, Sort
from sim.tasks.stack import Stack

TASKS = [make() for make in sim.tasks.TASKS.values()]
FETCHING = [task for task in TASKS if task.name != "reach"]
"""Tasks with an object to fetch and a place for it."""


PAIRS = [(task, robot_called(name)) for task in TASKS for name in task.robots]


def name_of(part: Task | Robot) -> str:
    return part.name


def view_of(task: Task, robot: Robot | None = None) -> View:
    robot = robot or robot_called(task.robots[0])
    return View.of(scene.compile_model(task.name, robot, task.objects(robot)), robot)


def seated(
    task: Insert, view: View, offset: tuple[float, float, float] = (0.0, 0.0, 0.0), opening: float = 0.07
) -> Float64:
    physics = task.draw(view, np.random.default_rng(0))
    frame = view.scene.frames[view.scene.frame("hole")]
    hole = physics[frame.address : frame.address + 3].copy()
    view.place(physics, "hole", hole, 0.3)
    view.place(physics, "peg", hole + np.array(offset), 0.3 + np.pi / 2)
    physics[view.columns[""].fingers] = 0.5 * opening
    return physics


@pytest.mark.parametrize(("task", "robot"), [pair for pair in PAIRS if pair[0].name != "reach"], ids=name_of)
def test_starts_are_open_apart_and_within_reach(task: Task, robot: Robot):
    view = view_of(task, robot)
    physics = np.stack([task.draw(view, np.random.default_rng(i)) for i in range(200)])
    found = task.measure(view, physics)
    assert not found.success.any()
    assert not found.failure.any()
    *items, goal = view.poses(physics, *[f.name for f in view.scene.frames if f.joint in ("free", "mocap")])
    tools = view.poses(physics, *[arm.tool for arm in robot.arms])
    for item in items:
        assert np.linalg.norm((item.position - goal.position)[:, :2], axis=1).min() > 0.12 * robot.scale
        assert np.ptp(item.position[:, 1]) > 0.1
    assert min(tool.position[:, 2].min() for tool in tools) > 0.1 * robot.scale


@pytest.mark.parametrize(("task", "robot"), PAIRS, ids=name_of)
def test_vectors_fit_their_specs_for_any_leading_axes(task: Task, robot: Robot):
    view = view_of(task, robot)
    physics = np.stack([task.draw(view, np.random.default_rng(i)) for i in range(6)])
    flat, folded = task.measure(view, physics), task.measure(view, physics.reshape(2, 3, -1))
    for name in ("state", "privileged"):
        blocks = getattr(flat, name)
        spec = array_spec(name, blocks)
        values = stack(blocks)
        spec.require(values)
        assert (spec.clip(values) == values).all()
        np.testing.assert_array_equal(stack(getattr(folded, name)).reshape(6, -1), values)
    assert folded.reward.shape == (2, 3)


def test_a_seated_released_peg_is_success_and_a_held_one_is_not():
    task = Insert()
    view = view_of(task)
    assert task.measure(view, seated(task, view)).success
    held = seated(task, view, opening=0.03)
    frame = view.scene.frames[view.scene.frame("peg")]
    # Lift the scene's table under the tool: the tool is at the grasp point when the peg comes to it.
    tool = view.poses(held, "tool")[0].position
    for name in ("peg", "hole"):
        start = view.scene.frames[view.scene.frame(name)].address
        held[start : start + 3] = tool - np.array([0.0, 0.0, GRASP_M])
    found = task.measure(view, held)
    assert not found.success
    assert frame.joint == "free"


@pytest.mark.parametrize("offset", [(0.0, 0.0, 0.01), (0.006, 0.0, 0.0), (0.0, 0.0, 0.03)])
def test_a_peg_that_is_not_in_its_place_is_no_success(offset: tuple[float, float, float]):
    task = Insert()
    view = view_of(task)
    assert not task.measure(view, seated(task, view, offset)).success


def test_relative_poses_are_zero_at_their_goals():
    task = Insert()
    view = view_of(task)
    blocks = task.measure(view, seated(task, view)).state
    spec = array_spec("state", blocks)
    np.testing.assert_allclose(stack(blocks)[spec.slice("peg_to_hole")], 0.0, atol=1e-6)


@pytest.mark.parametrize(("tilt", "reason"), [(20, ""), (60, "tipped")])
def test_a_fallen_peg_is_tipped(tilt: float, reason: str):
    task = Insert()
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    start = view.scene.frames[view.scene.frame("peg")].address
    half = 0.5 * np.deg2rad(tilt)
    physics[start + 3 : start + 7] = np.cos(half), np.sin(half), 0.0, 0.0
    assert FAILURES[task.measure(view, physics).failure] == reason


@pytest.mark.parametrize("task", FETCHING, ids=lambda t: t.name)
@pytest.mark.parametrize("way", [(1.4, 0.0, 0.0), (0.0, 1.4, 0.0), (0.0, 0.0, -0.1), (-1.4, 0.0, 0.0)])
def test_an_object_off_the_table_is_out_of_reach(task: Task, way: tuple[float, float, float]):
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    x_low, x_high, y_low, y_high = view.robot.workspace.reach
    middle, half = (0.5 * (x_low + x_high), 0.5 * (y_low + y_high)), (0.5 * (x_high - x_low), 0.5 * (y_high - y_low))
    place = middle[0] + way[0] * half[0], middle[1] + way[1] * half[1], way[2]
    item = next(f.name for f in view.scene.frames if f.joint == "free")
    view.place(physics, item, place, 0.0)
    assert FAILURES[task.measure(view, physics).failure] == "out_of_reach"


def test_a_cube_in_the_bin_is_success_and_one_beside_it_is_not():
    task = PickPlace()
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    start = view.scene.frames[view.scene.frame("bin")].address
    bin_ = physics[start : start + 3].copy()
    view.place(physics, "cube", bin_ + np.array([0.02, 0.01, 0.004 + SIDE_M / 2]), 0.5)
    assert task.measure(view, physics).success
    view.place(physics, "cube", bin_ + np.array([0.08, 0.0, SIDE_M / 2]), 0.5)
    assert not task.measure(view, physics).success


@pytest.mark.parametrize(
    ("offset", "solved"), [((0.0, 0.0, 0.0), True), ((0.01, -0.01, 0.0), True), ((0.02, 0, 0), False)]
)
def test_a_cube_on_the_other_is_success_while_it_lies_safely(offset: tuple[float, float, float], solved: bool):
    task = Stack()
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    start = view.scene.frames[view.scene.frame("bottom")].address
    top = physics[start : start + 3] + np.array([0.0, 0.0, SIDE_M]) + offset
    view.place(physics, "cube", top, 0.5)
    found = task.measure(view, physics)
    assert bool(found.success) == solved
    view.place(physics, "cube", top + np.array([0.0, 0.0, 0.01]), 0.5)
    assert not task.measure(view, physics).success


@pytest.mark.parametrize(
    ("offset", "yaw", "solved"),
    [
        ((0.0, 0.0, 0.0), 0.0, True),
        ((0.01, -0.01, 0.0), np.pi, True),
        ((0.03, 0.0, 0.0), 0.0, False),
        ((0.0, 0.0, 0.01), 0.0, False),
        ((0.0, 0.0, 0.0), 0.4, False),
    ],
)
def test_a_bar_on_the_mat_is_success_while_it_lies_along_it_whichever_end_is_where(
    offset: tuple[float, float, float], yaw: float, solved: bool
):
    task = Handover()
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    view.place(physics, "goal", (0.2, 0.05, 0.0), 0.3)
    view.place(physics, "bar", np.array([0.2, 0.05, handover.SIDE_M / 2]) + offset, 0.3 + yaw)
    assert bool(task.measure(view, physics).success) == solved


def test_a_bar_that_a_hand_is_closed_around_is_no_success():
    task = Handover()
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    (tool,) = view.poses(physics, "right_tool")
    # The right tool's x axis points along the bar to its right end.
    level = np.arctan2(*tool.axis(0)[1::-1])
    along = handover.GRASP_M * np.array([np.cos(level), np.sin(level), 0.0])
    bar = tool.position - along - [0.0, 0.0, handover.RAISED_M]
    view.place(physics, "bar", bar, level)
    view.place(physics, "goal", bar - [0.0, 0.0, handover.SIDE_M / 2], level)
    physics[view.columns["right_"].fingers] = handover.SIDE_M / 2
    assert not task.measure(view, physics).success
    physics[view.columns["right_"].fingers] = 0.04
    assert task.measure(view, physics).success


def test_no_hand_that_points_down_reaches_the_bar_or_the_mat_on_the_other_side():
    task = Handover()
    view = view_of(task)
    physics = np.stack([task.draw(view, np.random.default_rng(i)) for i in range(200)])
    bar, goal, left, right = view.poses(physics, "bar", "goal", "left_shoulder_link", "right_shoulder_link")
    # Stretched out, the wrist is so far from the shoulder; a hand that points down has it above its tool.
    stretched, height = np.hypot(0.05955, 0.3) + 0.3, 0.069744 + 0.15 + 0.5 * handover.SIDE_M - (0.02 + 0.12705)
    furthest = np.sqrt(stretched**2 - height**2)
    for item, end, base in ((bar, 1, right), (goal, -1, left)):
        tip = item.position + 0.5 * end * handover.LENGTH_M * item.axis(0)
        assert np.linalg.norm((tip - base.position)[:, :2], axis=1).min() > furthest


@pytest.mark.parametrize(("tilt", "reason"), [(20, ""), (60, "tipped")])
def test_a_bar_that_stands_on_its_end_is_tipped(tilt: float, reason: str):
    task = Handover()
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    start = view.scene.frames[view.scene.frame("bar")].address
    half = 0.5 * np.deg2rad(tilt)
    physics[start + 3 : start + 7] = np.cos(half), 0.0, np.sin(half), 0.0
    assert FAILURES[task.measure(view, physics).failure] == reason


def parts_joined(depth_m: float, aside_m: float, height_m: float) -> dict[str, bool]:
    """The checkpoints with the peg so deep in the socket, so far off its axis and so high above the table."""
    task = BimanualInsert()
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    apart = 0.5 * (bimanual_insert.SOCKET_LENGTH_M + bimanual_insert.PEG_LENGTH_M) - depth_m
    view.place(physics, "socket", (-0.1, 0.0, height_m), 0.0)
    view.place(physics, "peg", (apart - 0.1, aside_m, height_m), np.pi)
    found = task.measure(view, physics)
    assert not found.success
    (stages,) = [block for block in found.privileged if block.name == "checkpoint"]
    return dict(zip(stages.parts, stages.values.astype(bool).tolist(), strict=True))


@pytest.mark.parametrize(
    ("depth", "aside", "inserted"),
    [(0.04, 0.0, True), (0.034, 0.002, True), (0.03, 0.0, False), (0.04, 0.008, False), (-0.02, 0.0, False)],
)
def test_a_peg_is_inserted_when_it_is_deep_in_the_socket_and_on_its_axis(depth: float, aside: float, inserted: bool):
    stages = parts_joined(depth, aside, 0.2)
    assert stages["inserted"] == inserted and stages["raised"] and not stages["peg_held"]
    assert not parts_joined(depth, aside, 0.03)["raised"]


@pytest.mark.parametrize(("aside", "touches"), [(0.0005, False), (0.0025, True)])
def test_the_clearance_is_the_gap_between_the_peg_and_the_walls_of_the_socket(aside: float, touches: bool):
    task = BimanualInsert(clearance_m=0.0015)
    model = scene.compile_model(task.name, ALOHA, task.objects(ALOHA))
    view, data = View.of(model, ALOHA), mujoco.MjData(model)
    physics = view.at_rest()
    view.place(physics, "socket", (0.0, 0.0, 0.5), 0.0)
    view.place(physics, "peg", (0.06, aside, 0.5), 0.0)
    mujoco.mj_setState(model, data, physics, scene.PHYSICS)
    mujoco.mj_forward(model, data)
    assert (data.ncon > 0) == touches
    assert {model.geom(g).name for g in data.contact.geom.ravel()} <= {"peg", "socket_back"}


@pytest.mark.parametrize("part", ["socket", "peg"])
def test_a_part_that_stands_on_its_end_is_tipped(part: str):
    task = BimanualInsert()
    view = view_of(task)
    physics = task.draw(view, np.random.default_rng(0))
    start = view.scene.frames[view.scene.frame(part)].address
    physics[start + 3 : start + 7] = np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0
    assert FAILURES[task.measure(view, physics).failure] == "tipped"


def test_reaching_is_success_within_the_ball_and_the_reward_grows_on_the_way():
    task = Reach()
    view = view_of(task)
    physics = np.stack([task.draw(view, np.random.default_rng(0))] * 5)
    tool = view.poses(physics, "tool")[0].position[0]
    for row, away in enumerate((0.0, 0.014, 0.016, 0.05, 0.3)):
        view.place(physics[row], "ball", tool + np.array([away, 0.0, 0.0]), 0.0)
    found = task.measure(view, physics)
    assert found.success.tolist() == [True, True, False, False, False]
    assert (np.diff(found.reward) <= 0).all() and found.reward[-1] < 0.2 and found.reward[0] == 1.0


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_the_easiest_starts_lie_closer_together(task: Task):
    view = view_of(task)
    goal = [f for f in view.scene.frames if f.joint in ("free", "mocap")][-1].address
    columns, spread = [*range(1, 1 + len(view.arm.joints)), goal, goal + 1], []
    for difficulty in (0, 1):
        made = replace(task, difficulty=difficulty)
        starts = np.stack([made.draw(view, np.random.default_rng(i)) for i in range(50)])
        spread.append(np.ptp(starts[:, columns], axis=0))
    assert (spread[0] <= 0.2 * spread[1]).all() and spread[1].any()


def test_sorting_has_many_instructions_and_every_word_of_those_held_out_is_heard_in_training():
    assert len(set(Sort.instructions)) == len(Sort.instructions) >= 24
    chosen = {
        name: {Sort(combinations=name).choose(np.random.default_rng(i)) for i in range(400)}
        for name in ("training", "held_out", "all")
    }
    assert chosen["held_out"] == set(HELD_OUT) and len(HELD_OUT) >= 4
    assert chosen["training"] == chosen["all"] - chosen["held_out"]
    assert len(chosen["all"]) == len(Sort.instructions)
    heard = {word for i in chosen["training"] for word in Sort.instructions[i].split()}
    assert {word for i in HELD_OUT for word in Sort.instructions[i].split()} <= heard


def test_sorting_is_success_where_the_instruction_says_and_nowhere_else():
    task = Sort()
    view = view_of(task)
    physics = np.stack([task.draw(view, np.random.default_rng(3))] * len(ORDERS))
    address = {name: view.scene.frames[view.scene.frame(name)].address for name in (*ITEMS, "tray")}
    for row, order in enumerate(ORDERS):
        item = ITEMS[order.item]
        for parked, other in enumerate(ITEMS):  # apart from each other, so that no two places are the same
            view.place(physics[row], other, (0.42 + 0.08 * parked, -0.22 + 0.1 * parked, 0.02), 0.3)
        view.place(physics[row], "tray", (0.5, 0.22, 0.0), 0.0)
        if order.kind == 0:
            goal = np.array([0.5 + 0.076 * (order.to - 1), 0.22, 0.024])
        else:
            start = address[ITEMS[order.to]]
            goal = physics[row, start : start + 3] + [order.shift_m, 0.0, 0.04 * (order.kind == 2)]
        view.place(physics[row], item, goal, 0.5)
    matrix = np.array([task.measure(view, physics, np.int64(i)).success for i in range(len(ORDERS))])
    same = np.eye(len(ORDERS), dtype=bool)
    for i, j in np.ndindex(same.shape):  # in front of a thing that is behind it
        left, right = ORDERS[i], ORDERS[j]
        if left.kind == right.kind == 1 and (left.item, left.to) == (right.to, right.item):
            same[i, j] = left.shift_m == -right.shift_m
    np.testing.assert_array_equal(matrix, same)


def test_square_yaw_knows_four_sides_and_any_resting_face():
    level = Pose(np.zeros(3), np.eye(3))
    for quarter in range(4):
        turned = Pose(np.zeros(3), kinematics.matrix_from_rotation_vector(np.array([0, 0, 0.2 + quarter * np.pi / 2])))
        assert square_yaw(level, turned)[0] == pytest.approx(0.2)
    on_its_side = kinematics.matrix_from_rotation_vector(np.array([0.0, 0.0, -0.3])) @ (
        kinematics.matrix_from_rotation_vector(np.array([0.0, np.pi / 2, 0.0]))
    )
    assert square_yaw(level, Pose(np.zeros(3), on_its_side))[0] == pytest.approx(-0.3)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Insert(clearance_m=0.1),
        lambda: BimanualInsert(clearance_m=0.02),
        lambda: Insert(time_limit_s=0),
        lambda: PickPlace(difficulty=1.5),
    ],
)
def test_bad_parameters_are_refused(build):
    with pytest.raises(ConfigurationError, match="expected"):
        build()
