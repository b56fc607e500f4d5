from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.flow import FlowPolicy
from policies.selectors.average import AverageSelector
from policies.vision import ImageEncoder, SpatialSoftmax
from robotrl.errors import ConfigurationError, DataError
from robotrl.learn.blocks import torch_threads
from robotrl.learn.checkpoint import load_policy, save_policy
from robotrl.specs import CameraSpec
from tests.contracts.policy import PolicyContract
from tests.policies.builders import ACTION, CAMERAS, STATE, policy, seen, spec, windows

OWN = ("joint.0", "joint.1", "opening")


def seeing(**changes) -> FlowPolicy:
    return policy(**{"cameras": CAMERAS, "elements": OWN, "channels": (8, 8), **changes})


class TestFlowPolicyThatSees(PolicyContract):
    def make_policy(self):
        return seeing(version=3), spec()


class TestFlowPolicyThatSeesWithHistory(PolicyContract):
    def make_policy(self):
        return seeing(history=3, elements=None), spec()


class TestAverageSelectorThatSees(PolicyContract):
    def make_policy(self):
        return AverageSelector(seeing(), draws=5), spec()


@given(x=st.integers(-3, 3), y=st.integers(-3, 3), seed=st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_what_moves_in_the_picture_moves_its_place_as_far(x: int, y: int, seed: int):
    blob = torch.randn((2, 3, 5, 5), generator=torch.Generator().manual_seed(seed)).abs() + 8.0
    still, moved = torch.full((2, 2, 3, 13, 17), -30.0)
    still[..., 4:9, 6:11] = blob
    moved[..., 4 + y : 9 + y, 6 + x : 11 + x] = blob
    places = SpatialSoftmax(3)
    torch.nn.init.constant_(places.log_sharpness, 2.5)  # so that what does not move has no share
    way = (places(moved) - places(still)).detach()
    torch.testing.assert_close(way[:, :3], torch.full((2, 3), x * 2 / 16), atol=1e-4, rtol=0)
    torch.testing.assert_close(way[:, 3:], torch.full((2, 3), y * 2 / 12), atol=1e-4, rtol=0)


def test_places_are_inside_the_picture_and_depend_on_neither_brightness_nor_contrast():
    maps = 5 * torch.randn((4, 6, 9, 9), generator=torch.Generator().manual_seed(0))
    found = SpatialSoftmax(6)(maps)
    assert found.shape == (4, 12) and (found.abs() <= 1).all()
    torch.testing.assert_close(SpatialSoftmax(6)(2.0 * maps + 3.0), found, atol=1e-3, rtol=0)
    torch.testing.assert_close(SpatialSoftmax(6)(torch.zeros(1, 6, 9, 9)), torch.zeros(1, 12))


def test_only_the_chosen_elements_of_the_state_reach_the_actions():
    made, contract = seeing(), PolicyContract()
    observation = contract.observe(made, spec(), range(6), 6)
    goal = observation.state.copy()
    goal[..., 3:] += 0.5
    noise = np.ones((6, 4, 3), np.float32)

    def act(states, images):
        return made.sample(made.context(states, images), noise)

    before = act(observation.state, observation.images)
    np.testing.assert_array_equal(act(goal, observation.images), before)
    own = observation.state + np.float32(0.1) * (np.arange(5) < 3)
    assert (act(own, observation.images) != before).all()
    darker = {name: picture // 2 for name, picture in observation.images.items()}
    assert (act(observation.state, darker) != before).any(axis=(1, 2)).all()


def test_a_selector_encodes_an_observation_once_however_many_draws_there_are():
    made, contract = seeing(), PolicyContract()
    rows: list[int] = []
    made.encoder.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    contract.propose(AverageSelector(made, 16), spec(), 40)
    assert rows == [32, 32]


def test_training_learns_from_pictures_what_the_state_does_not_say():
    made = seeing(fitted=False)
    made.fit_normalizer(windows())
    optimizer, generator = torch.optim.Adam(made.parameters(), 3e-3), torch.Generator().manual_seed(0)
    with torch_threads(1):
        for step in range(300):
            optimizer.zero_grad()
            made.loss(seen(64, seed=step + 1), generator).mean().backward()
            optimizer.step()
    test = seen(128, seed=99_999)
    newest = {name: frames[:, -1] for name, frames in test.images.items()}
    found = made.sample(made.context(test.states, newest), np.zeros_like(test.actions))
    error = np.abs(found - ACTION.clip(test.actions))
    blind = np.abs(test.states[:, -1, None, :2] - test.actions[..., :2]).mean()
    assert error[..., :2].mean() < 0.25 * blind


def test_pictures_that_are_missing_or_of_another_size_are_named():
    made, batch = seeing(), seen(4)
    with pytest.raises(DataError, match=r"sees camera 'front' of 16 x 24 pixels, fast; it was given no pictures"):
        made.loss(windows(4), torch.Generator())
    front = {name: frames[:, -1] for name, frames in batch.images.items() if name == "front"}
    with pytest.raises(DataError, match=r"'side' of 20 x 16 pixels, full; it was given {'front': \(16, 24\)}"):
        made.context(batch.states, front)
    with pytest.raises(DataError, match=r"'side': \(16, 20\)"):
        made.context(batch.states, front | {"side": np.zeros((4, 16, 20, 3), np.uint8)})


def test_networks_and_elements_that_cannot_be_are_named():
    for channels in ((), (8, 0)):
        with pytest.raises(ConfigurationError, match=r"channels=.*: expected one or more positive"):
            seeing(channels=channels)
    with pytest.raises(ConfigurationError, match=r"'front' of 8 x 64 pixels, full: expected at least 16 x 16"):
        ImageEncoder([CameraSpec("front", 8, 64)], (8, 8))
    with pytest.raises(ConfigurationError, match=r"Did you mean 'joint\.0'"):
        FlowPolicy(STATE, ACTION, elements=["joint.00"])


def test_a_saved_policy_that_sees_comes_back_to_the_bit(tmp_path):
    made, batch = seeing(version=2), seen(5)
    save_policy(tmp_path / "2", made, spec(), {})
    loaded = load_policy(tmp_path / "2", spec())
    assert loaded.cameras == CAMERAS and loaded.elements == OWN
    newest = {name: frames[:, -1] for name, frames in batch.images.items()}
    np.testing.assert_array_equal(loaded.context(batch.states, newest), made.context(batch.states, newest))


@pytest.mark.parametrize(
    ("cameras", "message"),
    [
        ((), r"expected a camera 'front' of 16 x 24 pixels, fast, the environment has none; choose the task's cameras"),
        (CAMERAS[:1], r"expected a camera 'side' of 20 x 16 pixels, full, the environment has 'front' of 16 x 24"),
        ((CAMERAS[0], replace(CAMERAS[1], width=32)), r"'side' of 20 x 16 pixels.* 'side' of 20 x 32 pixels"),
        ((replace(CAMERAS[0], profile="full"), CAMERAS[1]), r"fast, the environment has 'front' .* pixels, full"),
    ],
)
def test_a_policy_is_refused_where_it_would_see_something_else(tmp_path, cameras, message):
    save_policy(tmp_path / "0", seeing(), spec(), {})
    with pytest.raises(ConfigurationError, match=f"{tmp_path / '0'}: .*{message}"):
        load_policy(tmp_path / "0", replace(spec(), cameras=cameras))


def test_state_policies_are_saved_as_before_there_were_pictures():
    assert policy().config().keys() == {
        *("history", "chunk_length", "width", "blocks", "euler_steps", "block_rows", "version")
    }
