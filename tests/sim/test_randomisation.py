"""Worlds that differ: drawn from the seed alone, recorded, and felt by the physics."""

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from robotrl.seeds import seed_range
from robotrl.types import Observation
from sim.engine import Engine
from sim.environment import MujocoEnvironment
from sim.experts import Expert
from sim.randomisation import Randomisation, Variants
from sim.tasks.insert import Insert
from sim.tasks.pick_place import PickPlace
from tests.contracts.environment import wiggle

WIDE = Randomisation(
    mass=0.5,
    friction=0.5,
    colour=0.2,
    light=0.3,
    camera_m=0.02,
    camera_rad=0.05,
    action_noise_rad=0.002,
    action_delay_ticks=3,
)


def begun(how: Randomisation, worlds: int = 4, seeds: np.ndarray | None = None) -> MujocoEnvironment:
    env = MujocoEnvironment(Insert(), worlds, randomisation=how)
    env.reset(seed_range("train").block(worlds) if seeds is None else seeds, np.ones(worlds, np.bool_))
    return env


def look(env: MujocoEnvironment) -> Observation:
    """The present observation: of a step in which no world moves."""
    shape = (env.worlds, 1, env.spec.action.size)
    return env.step(np.zeros(shape, np.float32), np.zeros(env.worlds, np.bool_)).observation


def drawn(env: MujocoEnvironment, name: str) -> np.ndarray:
    """The values (N, k) of `random.<name>` that the environment reports."""
    return look(env).privileged[:, env.spec.privileged.slice(f"random.{name}")]


def test_by_default_nothing_is_drawn_and_no_model_is_copied():
    env = MujocoEnvironment(Insert(), 3)
    assert env._variants.of(np.arange(3)) is None
    assert not any(e.startswith("random") for e in env.spec.privileged.elements)


def test_values_are_recorded_differ_between_seeds_and_stay_in_their_bounds():
    env = begun(WIDE, 16)
    observation = look(env)
    columns = [i for i, e in enumerate(env.spec.privileged.elements) if e.startswith("random.")]
    values = observation.privileged[:, columns]
    names = {env.spec.privileged.elements[i].split(".")[1] for i in columns}
    assert names == {"mass", "friction", "colour", "light", "camera", "camera_turn", "action_delay"}
    assert (np.ptp(values, axis=0) > 0).all()
    assert (env.spec.privileged.clip(observation.privileged)[:, columns] == values).all()


def test_a_knob_draws_the_same_whatever_else_is_drawn():
    seeds = seed_range("train").block(4)
    alone, together = begun(Randomisation(mass=0.5), seeds=seeds), begun(WIDE, seeds=seeds)
    np.testing.assert_array_equal(drawn(alone, "mass"), drawn(together, "mass"))


def test_the_recorded_mass_is_the_mass_of_the_model():
    env = begun(Randomisation(mass=0.5))
    models = env._variants.of(np.arange(4))
    factor = drawn(env, "mass")[:, 0]
    masses = np.array([m.body("peg").mass[0] for m in models])
    np.testing.assert_array_equal(masses, env.model.body("peg").mass[0] * factor.astype(np.float64))
    # What MuJoCo derives from masses was derived anew.
    weights = np.array([m.body("peg").invweight0[0] for m in models])
    np.testing.assert_allclose(weights * masses, weights[0] * masses[0], rtol=1e-6)


def test_less_friction_lets_a_cube_slide_farther():
    env = MujocoEnvironment(PickPlace(), 2)
    variants = Variants(env.model, 2, Randomisation(friction=1.0))
    seeds = seed_range("train").block(2)
    physics = env.reset(seeds, np.ones(2, np.bool_)).physics.copy()
    physics[1] = physics[0]
    variants.begin(np.arange(2), seeds)
    models = variants.of(np.arange(2))
    knobs = ["cube", "pads", "table"]
    variants.write(models[0], np.full(len(knobs), 0.5))
    variants.write(models[1], np.full(len(knobs), 2.0))
    view = env._view
    physics[:, view.free["cube"]] = 0.6  # m/s along x
    controls = np.repeat(physics[:, None, env._targets], 20, axis=1)
    after, sound = Engine(env.model, 1, env.robot.substeps).run(physics, controls, models)
    assert sound.all()
    address = view.scene.frames[view.scene.frame("cube")].address
    way = after[:, -1, address] - physics[:, address]
    assert way[0] > 1.5 * way[1] > 0


def test_actions_arrive_as_late_as_the_world_was_drawn():
    env = begun(Randomisation(action_delay_ticks=4), 12)
    everyone = np.ones(12, np.bool_)
    delay = drawn(env, "action_delay")[:, 0].astype(int)
    assert set(delay) == {0, 1, 2, 3, 4}
    actions = wiggle(env.spec, look(env), 10, size=0.001)
    executed = env.step(actions, everyone).actions
    for world, late in enumerate(delay):
        np.testing.assert_array_equal(executed[world, late:], actions[world, : 10 - late])
        assert (executed[world, :late] == executed[world, :1]).all()


def test_noise_spoils_joints_and_never_the_gripper():
    env = begun(Randomisation(action_noise_rad=0.01))
    everyone = np.ones(4, np.bool_)
    held = look(env).state[:, [env.spec.state.elements.index(e) for e in env.spec.action.elements]]
    executed = env.step(np.repeat(held[:, None], 20, axis=1), everyone).actions
    stray = executed - held[:, None]
    assert 0.007 < stray[..., :7].std() < 0.013
    assert (stray[..., 7] == 0).all()


def test_the_expert_still_inserts_with_wide_physics():
    env = begun(Randomisation(mass=0.5, friction=0.3, action_noise_rad=0.001), 20)
    expert, everyone = Expert(env.spec, 20), np.ones(20, np.bool_)
    observation = look(env)
    expert.reset(np.arange(20), seed_range("train").block(20))
    running, solved = everyone.copy(), 0
    while running.any():
        rows = np.flatnonzero(running)
        actions = np.zeros((20, 1, 8), np.float32)
        actions[rows, 0] = expert.act(observation, rows)
        transition = env.step(actions, running)
        observation = transition.observation
        over = (transition.terminated | transition.truncated)[:, 0] & running
        solved += sum(transition.failure[r] == "" for r in np.flatnonzero(over))
        running &= ~over
    assert solved >= 18


def test_models_of_another_scene_are_refused():
    env, other = MujocoEnvironment(Insert(), 1), MujocoEnvironment(PickPlace(), 1)
    physics = env.reset(seed_range("train").block(1), np.ones(1, np.bool_)).physics
    controls = physics[:, None, env._targets]
    for models in ([other.model], [env.model, env.model]):
        with pytest.raises(ConfigurationError, match="copies of the engine's model"):
            Engine(env.model).run(physics, controls, models)


@pytest.mark.parametrize("bad", [{"mass": -0.1}, {"friction": float("nan")}, {"action_delay_ticks": -1}])
def test_widths_below_zero_are_refused(bad: dict[str, float]):
    with pytest.raises(ConfigurationError, match="expected 0 or more"):
        Randomisation(**bad)
