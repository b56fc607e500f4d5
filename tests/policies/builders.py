"""A small task whose best action is known, and windows cut from it."""

from dataclasses import replace
from typing import Any

import numpy as np

from policies.flow import FlowPolicy
from robotrl.specs import ArraySpec, CameraSpec, EnvironmentSpec
from robotrl.types import Windows
from tests import builders

STATE = ArraySpec(
    name="state",
    elements=("joint.0", "joint.1", "opening", "tool_to_goal.x", "constant"),
    units=("rad", "rad", "m", "m", "1"),
    low=(-3.0,) * 5,
    high=(3.0,) * 5,
)
ACTION = ArraySpec(
    "action", ("joint.0", "joint.1", "opening"), ("rad", "rad", "m"), (-2.0, -2.0, 0.0), (2.0, 2.0, 0.08)
)
LENGTH = 4
CAMERAS = (CameraSpec("front", 16, 24, "fast"), CameraSpec("side", 20, 16))


def spec(task: str = "insert") -> EnvironmentSpec:
    """`tests.builders.spec` with the state and action of this module."""
    return replace(builders.spec(task), state=STATE, action=ACTION, cameras=CAMERAS)


def windows(count: int = 256, seed: int = 0, history: int = 1) -> Windows:
    """Joint targets run from the measured joint towards 0.3 · offset; the gripper closes near the goal."""
    rng = np.random.default_rng(seed)
    states = rng.uniform(-1, 1, (count, history, STATE.size)).astype(np.float32)
    states[..., 2:4] *= 0.05
    states[..., 4] = 0.7
    newest = states[:, -1]
    ahead = np.arange(1, LENGTH + 1, dtype=np.float32)[None, :, None]
    joints = newest[:, None, :2] + ahead * newest[:, None, 3:4]
    gripper = np.where(newest[:, None, 3:4] > 0, 0.06, 0.01) + 0 * ahead
    actions = np.concatenate([joints, gripper], axis=2).astype(np.float32)
    mask = np.arange(LENGTH) < rng.integers(1, LENGTH + 1, count)[:, None]
    return Windows(
        states=states,
        actions=actions,
        mask=mask,
        next_states=newest,
        columns={},
        episode=np.zeros(count, np.int32),
        tick=np.zeros(count, np.int32),
        source=np.zeros(count, np.uint8),
    )


def seen(count: int = 256, seed: int = 0, history: int = 1) -> Windows:
    """`windows` with pictures: noise, and in every one of "front" a red square where `tool_to_goal.x` says."""
    made, rng = windows(count, seed, history), np.random.default_rng(seed)
    images = {c.name: rng.integers(0, 64, (count, history, c.height, c.width, 3), np.uint8) for c in CAMERAS}
    column = np.round(12 + 150 * made.states[..., 3]).astype(int)
    for place in np.ndindex(count, history):
        images["front"][*place, 6:10, column[place] - 2 : column[place] + 2] = 255, 0, 0
    return replace(made, images=images)


def policy(seed: int = 0, fitted: bool = True, history: int = 1, **sizes: Any) -> FlowPolicy:
    """A small flow policy for this task, with weights that do something although they are not trained."""
    import torch

    made = FlowPolicy(STATE, ACTION, history=history, chunk_length=LENGTH, width=32, blocks=1, seed=seed, **sizes)
    with torch.no_grad():
        made.network.outlet.weight.normal_(0.0, 0.1, generator=torch.Generator().manual_seed(seed))
    if fitted:
        made.fit_normalizer(windows(history=history))
    return made


class RepeatingSampler:
    """Draws batches by a counter, as the real sampler does."""

    def __init__(self, batch: int = 64, seed: int = 0) -> None:
        self.batch, self.seed, self.drawn = batch, seed, 0

    def sample(self) -> Windows:
        self.drawn += 1
        return windows(self.batch, seed=1000 * self.seed + self.drawn)

    def state_dict(self) -> dict[str, int]:
        return {"drawn": self.drawn}

    def load_state(self, state: dict[str, int]) -> None:
        self.drawn = state["drawn"]
