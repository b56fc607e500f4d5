"""The engine against bare MuJoCo."""

import logging
import os

import mujoco
import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from sim import scene
from sim.engine import Engine
from sim.robots import PANDA
from sim.tasks.base import View
from sim.tasks.insert import Insert

TASK = Insert()


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return scene.compile_model(TASK.name, PANDA, TASK.objects(PANDA))


def starts(model: mujoco.MjModel, count: int) -> np.ndarray:
    view = View.of(model, PANDA)
    return np.stack([TASK.draw(view, np.random.default_rng(i)) for i in range(count)])


def random_controls(physics: np.ndarray, model: mujoco.MjModel, ticks: int) -> np.ndarray:
    held = physics[:, None, scene.control_slice(model)]
    return held + 0.03 * np.random.default_rng(0).normal(size=(len(physics), ticks, model.nu))


def test_it_equals_mj_step_bit_for_bit(model: mujoco.MjModel):
    physics = starts(model, 3)
    controls = random_controls(physics, model, 5)
    found, sound = Engine(model, substeps=PANDA.substeps).run(physics, controls)
    assert sound.all()
    data = mujoco.MjData(model)
    for world in range(3):
        mujoco.mj_setState(model, data, physics[world], scene.PHYSICS)
        for tick in range(5):
            data.ctrl[:] = controls[world, tick]
            for _ in range(PANDA.substeps):
                mujoco.mj_step(model, data)
            np.testing.assert_array_equal(found[world, tick, 1 : 1 + model.nq], data.qpos)
            np.testing.assert_array_equal(found[world, tick, 1 + model.nq : 1 + model.nq + model.nv], data.qvel)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(model: mujoco.MjModel, threads: int):
    physics = starts(model, 7)
    controls = random_controls(physics, model, 4)
    engine = Engine(model, threads, PANDA.substeps)
    np.testing.assert_array_equal(
        engine.run(physics, controls)[0], Engine(model, substeps=PANDA.substeps).run(physics, controls)[0]
    )
    engine.close()


def test_time_is_the_same_sum_however_ticks_are_split(model: mujoco.MjModel):
    physics = starts(model, 1)
    controls = random_controls(physics, model, 300)
    engine = Engine(model, substeps=PANDA.substeps)
    whole = engine.run(physics, controls)[0]
    state = physics
    for k in range(300):
        state = engine.run(state, controls[:, k : k + 1])[0][:, 0]
    np.testing.assert_array_equal(state, whole[:, -1])
    np.testing.assert_allclose(whole[0, -1, 0], 15.0)


@pytest.mark.parametrize("poison", [1e7, 1e12, np.nan, np.inf])
def test_a_diverged_world_is_found_and_leaves_no_file(
    model: mujoco.MjModel, poison: float, tmp_path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.chdir(tmp_path)
    physics = starts(model, 3)
    physics[1, 1 + model.nq + 2] = poison
    with caplog.at_level(logging.DEBUG, "sim.engine"):
        after, sound = Engine(model, substeps=PANDA.substeps).run(physics, random_controls(physics, model, 3))
    assert sound.tolist() == [[True] * 3, [False] * 3, [True] * 3]
    np.testing.assert_array_equal(after[1, :, 1:], physics[1, 1:].repeat(3).reshape(-1, 3).T)
    assert os.listdir(tmp_path) == []
    assert "unstable" in caplog.text


BAD = [np.nan, np.inf, -np.inf, 1e12]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("part", ["position", "velocity", "mocap"])
def test_a_state_out_of_bounds_is_unsound_whatever_part_of_it_and_the_others_go_on(
    model: mujoco.MjModel, part: str, bad: float
):
    physics = starts(model, 3)
    controls = random_controls(physics, model, 3)
    expected = Engine(model, substeps=PANDA.substeps).run(physics, controls)[0]
    column = {"position": 1, "velocity": 1 + model.nq, "mocap": scene.control_slice(model).stop}[part]
    physics[1, column] = bad
    after, sound = Engine(model, 2, PANDA.substeps).run(physics, controls)
    assert sound.tolist() == [[True] * 3, [False] * 3, [True] * 3]
    np.testing.assert_array_equal(after[[0, 2]], expected[[0, 2]])


@pytest.mark.parametrize("bad", BAD)
def test_controls_out_of_bounds_are_unsound_from_their_tick_on_and_the_last_sound_state_stays(
    model: mujoco.MjModel, bad: float
):
    physics = starts(model, 3)
    controls = random_controls(physics, model, 4)
    expected = Engine(model, substeps=PANDA.substeps).run(physics, controls)[0]
    controls[1, 2, 3] = bad
    after, sound = Engine(model, substeps=PANDA.substeps).run(physics, controls)
    assert sound.tolist() == [[True] * 4, [True, True, False, False], [True] * 4]
    np.testing.assert_array_equal(after[[0, 2]], expected[[0, 2]])
    np.testing.assert_array_equal(after[1, :2], expected[1, :2])
    np.testing.assert_array_equal(after[1, 2:, 1:], expected[1, [1, 1], 1:])


def test_a_long_call_does_not_forget_that_a_world_diverged(model: mujoco.MjModel):
    physics = starts(model, 2)
    physics[1, 1 + model.nq] = 1e7
    # Long enough for the clock that MuJoCo started again to pass any time before.
    _, sound = Engine(model, substeps=PANDA.substeps).run(physics, random_controls(physics, model, 60))
    assert sound[0].all()
    assert not sound[1].any()


def test_a_world_after_a_diverged_one_is_not_touched_by_it(model: mujoco.MjModel):
    physics = starts(model, 2)
    controls = random_controls(physics, model, 2)
    expected = Engine(model, substeps=PANDA.substeps).run(physics[1:], controls[1:])[0]
    physics[0, 1 + model.nq] = np.nan
    np.testing.assert_array_equal(Engine(model, substeps=PANDA.substeps).run(physics, controls)[0][1:], expected)


def test_a_model_with_warm_start_is_refused():
    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody/></mujoco>")
    with pytest.raises(ConfigurationError, match="warm start"):
        Engine(model)


def test_a_negative_thread_count_is_refused(model: mujoco.MjModel):
    with pytest.raises(ConfigurationError, match="threads"):
        Engine(model, -1)


def test_zero_threads_means_all_cores(model: mujoco.MjModel):
    engine = Engine(model, 0, PANDA.substeps)
    assert engine.threads == len(os.sched_getaffinity(0))
    engine.close()


def test_targets_become_controls_and_back():
    actions = np.float32([[0.1, -0.2, 0.3, -1.0, 0.5, 1.1, 0.7, 0.063]])
    controls = PANDA.controls(actions)
    assert controls.shape == (1, 9)
    np.testing.assert_array_equal(PANDA.actions_of(controls), actions)
