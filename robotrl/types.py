"""The values that travel through the loop. All are frozen; arrays in them are not to be written to.

Axis letters: N worlds, n the worlds a call is about, K control ticks, A action elements, S state elements,
H chunk length, D committed ticks, L history, T episode length, B batch. Row t of an episode is the observation
before action t, action t, and the reward and flags after it; states therefore have T + 1 rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from robotrl.errors import DataError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]

Outcome = Literal["success", "failure"]


class ControlMode(IntEnum):
    """Who moves the robot at a tick."""

    AUTONOMOUS = 0
    PAUSED = 1
    REWIND = 2
    RECOVERY = 3
    CORRECTION = 4
    RESET = 5


class Trigger(IntEnum):
    """What called the person to a tick under human control."""

    NONE = 0
    ALARM = 1
    STALL = 2
    RANDOM = 3
    SELF = 4


@dataclass(frozen=True)
class Observation:
    """What can be known of N worlds at one tick.

    Attributes:
        state: (N, S) float32, units of `EnvironmentSpec.state`. The loop stacks it to (n, L, S), oldest first,
            for a policy with history L; rows before the first tick repeat the first.
        privileged: (N, P) float32 or None; for teachers, critics and experts only.
        images: camera name → (N, H, W, 3) uint8, zeros for a world that was not rendered; empty when none was.
        instruction: one sentence a world.
        tick: (N,) int64 control ticks since reset.
        time_ns: (N,) int64 ns since reset, on the environment's clock.
        physics: (N, X) float64 physics state, or None outside simulation.
    """

    state: Float32
    privileged: Float32 | None
    images: dict[str, UInt8]
    instruction: tuple[str, ...]
    tick: Int64
    time_ns: Int64
    physics: Float64 | None = None

    def take(self, rows: Int64) -> "Observation":
        """The same for the worlds `rows` (n,) alone."""
        return Observation(
            state=self.state[rows],
            privileged=None if self.privileged is None else self.privileged[rows],
            images={name: image[rows] for name, image in self.images.items()},
            instruction=tuple(self.instruction[int(r)] for r in rows),
            tick=self.tick[rows],
            time_ns=self.time_ns[rows],
            physics=None if self.physics is None else self.physics[rows],
        )


@dataclass(frozen=True)
class Committed:
    """Actions that will run before the next chunk can start: `actions` (n, D, A), of which `length` (n,) are real."""

    actions: Float32
    length: Int64


@dataclass(frozen=True)
class ActionChunk:
    """Proposed actions for some worlds. Action i belongs to tick `observed_tick + i`.

    Attributes:
        rows: (n,) the worlds it is for.
        actions: (n, H, A) float32 in raw units of `EnvironmentSpec.action`.
        observed_tick: (n,) tick of the observation it was computed from.
        policy_version: which weights made it.
        noise: (n, H, A) the starting noise, or None for a deterministic policy.
    """

    rows: Int64
    actions: Float32
    observed_tick: Int64
    policy_version: int
    noise: Float32 | None = None


@dataclass(frozen=True)
class Transition:
    """K ticks of N worlds. A world that ended stops; its later ticks have `valid` False and hold its last state.

    Attributes:
        state: (N, K, S) float32 after each tick; `privileged` (N, K, P) float32; `physics` (N, K, X) float64.
        actions: (N, K, A) float32 as executed, after clamping to the spec; `clamped` (N, K) uint8, 1 where it changed.
        reward: (N, K) float32. `terminated`, `truncated`, `success`, `valid`: (N, K) bool.
        failure: (N,) what ended a world that failed ("tipped", "out_of_reach", "diverged", "timeout"), "" otherwise.
        trust: (N, K) float32 of a world model, None elsewhere.
        observation: every world at its last valid tick.
    """

    state: Float32
    privileged: Float32
    physics: Float64
    actions: Float32
    clamped: UInt8
    reward: Float32
    terminated: Bool
    truncated: Bool
    success: Bool
    valid: Bool
    failure: tuple[str, ...]
    observation: Observation
    trust: Float32 | None = None


@dataclass(frozen=True)
class Snapshot:
    """All that an environment needs to go on bit-exactly.

    `physics` (n, Y) float64 full state with controls and mocap; `counters` (n, C) int64 (ticks, success streaks, …);
    `generators` one RNG state (JSON) a world; `fingerprint` of the spec it belongs to.
    """

    rows: Int64
    physics: Float64
    counters: Int64
    generators: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True)
class Command:
    """What the operator wants of N worlds.

    Attributes:
        mode: (N,) uint8 ControlMode.
        actions: (N, A) float32 the person's targets, read where `active`.
        active: (N,) bool, worlds that the person drives at this tick.
        trigger: (N,) uint8 Trigger, what called the person there.
        orient: (N,) bool, the world that the person is turning to, not yet driving.
        suspend: (N,) bool, worlds that wait, unmoving, for the person to come (simulation only).
    """

    mode: UInt8
    actions: Float32
    active: Bool
    trigger: UInt8
    orient: Bool
    suspend: Bool


@dataclass(frozen=True)
class Status:
    """What the loop tells an operator: `probability` (N,) of success by the critic or NaN; `running` (N,) bool;
    `started` (N,) bool, worlds whose episode begins at this tick; `seed` (N,) of the running episode."""

    probability: Float32
    running: Bool
    started: Bool
    seed: Int64


@dataclass(frozen=True)
class Segment:
    """Ticks [start, stop) of an episode that belong together."""

    start: int
    stop: int
    kind: Literal["progress", "idle", "failure_inducing", "recovery", "correction"]
    score: float


@dataclass(frozen=True)
class ChunkTable:
    """The chunks of one episode, in the order in which they were asked for; C of them.

    `actions` (C, H, A) float32 proposed; `observed_tick`, `start_tick` (C,) int32, start −1 when never executed;
    `policy_version` (C,) int32; `noise` (C, H, A) float32, or (C, 0, 0) for a policy that has none.
    """

    actions: Float32
    observed_tick: Int32
    start_tick: Int32
    policy_version: Int32
    noise: Float32


@dataclass(frozen=True)
class EpisodeMeta:
    """What is known of an episode as a whole.

    Attributes:
        episode_id: hash of run, stage, seed and branch (`seeds.episode_id`).
        source: "demonstration", "autonomous" or "takeover" (autonomous with human ticks).
        outcome: "success", "failure", or None when the episode was cut (rewound, interrupted).
        reason: why it ended: "success", "tipped", "out_of_reach", "timeout", "diverged", "rewound".
        parent, parent_tick: the episode and tick it branched from, or "" and −1.
        operator_s, orient_s, watch_s: seconds of driving, of turning to this robot, and of watching attributed to it.
        environment, code: fingerprints.
    """

    episode_id: str
    task: str
    instruction: str
    seed: int
    stage: str
    source: str
    outcome: Outcome | None
    reason: str
    parent: str = ""
    parent_tick: int = -1
    operator: str = ""
    operator_s: float = 0.0
    orient_s: float = 0.0
    watch_s: float = 0.0
    environment: str = ""
    code: str = ""
    control_hz: float = 20.0


class FrameArray(Protocol):
    """Pictures of one camera, (F, H, W, 3) uint8: an array, or encoded ones that are decoded when they are indexed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(F, H, W, 3)."""
        ...

    def __len__(self) -> int:
        """F."""
        ...

    def __getitem__(self, index: Any, /) -> Any:
        """One picture (H, W, 3) for an integer, several (n, H, W, 3) for a slice or an array of indices; uint8 RGB."""
        ...


@dataclass(frozen=True)
class CameraFrames:
    """What one camera saw of an episode. `tick` (F,) int32, strictly increasing: the state row that each frame shows.

    A uint8 array is stored as JPEG; `data.frames.EncodedFrames` are stored as they are.
    """

    tick: Int32
    frames: FrameArray


@dataclass(frozen=True)
class Episode:
    """One finished episode of T ticks; immutable once committed.

    Shapes: `state` (T + 1, S) f32, `privileged` (T + 1, P) f32, `physics` (T + 1, X) f64; `action` executed,
    `action_requested` before safety, `action_policy`, `action_human` (T, A) f32, NaN where there was none;
    `control_mode`, `trigger`, `clamped` (T,) u8; `intervention`, `terminated`, `truncated`, `success`,
    `starved` (T,) bool; `reward`, `probability` (T,) f32 (critic while rolling, NaN when none ran);
    `policy_version`, `chunk_id`, `chunk_row`, `delay_ticks` (T,) i32, −1 where no chunk acted; `time_ns` (T + 1,) i64.
    `cameras`: camera name → frames, which may be sparser than the T + 1 states.
    """

    meta: EpisodeMeta
    state: Float32
    privileged: Float32
    physics: Float64
    action: Float32
    action_requested: Float32
    action_policy: Float32
    action_human: Float32
    control_mode: UInt8
    trigger: UInt8
    intervention: Bool
    reward: Float32
    probability: Float32
    terminated: Bool
    truncated: Bool
    success: Bool
    policy_version: Int32
    chunk_id: Int32
    chunk_row: Int32
    delay_ticks: Int32
    starved: Bool
    clamped: UInt8
    time_ns: Int64
    chunks: ChunkTable
    cameras: Mapping[str, CameraFrames] = field(default_factory=dict[str, CameraFrames])

    @property
    def length(self) -> int:
        """T, the number of ticks."""
        return len(self.action)

    @property
    def succeeded(self) -> bool:
        """Whether the outcome is success."""
        return self.meta.outcome == "success"


@dataclass(frozen=True)
class Branch:
    """A start in the middle of a stored episode: the state of `parent` after `tick` ticks, for the `copy`-th time.

    `tick` counts from the reset, so that `parent` must be whole: an episode that branched off itself is put behind its
    own parent first (`rollout.branching.joined`). Raises `DataError` where nothing can go on.
    """

    parent: Episode
    tick: int
    copy: int = 0

    def __post_init__(self) -> None:
        meta, length = self.parent.meta, self.parent.length
        if meta.parent:
            raise DataError(
                f"episode {meta.episode_id} branched off {meta.parent} at tick {meta.parent_tick}: join the two first"
            )
        # After the last tick of an episode that ended, rather than being cut, there is nothing to go on with.
        last = length - 1 if (self.parent.terminated | self.parent.truncated).any() else length
        if not 0 <= self.tick <= last:
            raise DataError(
                f"episode {meta.episode_id} has {length} ticks: expected a tick from 0 to {last}, got {self.tick}"
            )

    @property
    def key(self) -> str:
        """What tells this start from all others of the same seed."""
        return f"{self.parent.meta.episode_id}@{self.tick}#{self.copy}"


@dataclass(frozen=True)
class Windows:
    """A training batch cut from stored episodes.

    Attributes:
        states: (B, L, S) float32, oldest first; rows before an episode's first tick repeat it.
        actions: (B, H, A) float32 from the window's tick on; `mask` (B, H) bool: which of them are targets.
        next_states: (B, S) float32 after the last masked action, for bootstrapping.
        columns: annotation name → (B,) float32 at the window's tick.
        episode: (B,) int32 index into the reader's ordered ids; `tick` (B,) int32.
        source: (B,) uint8 index into `data.cache.SOURCES`.
        images: camera name → (B, L, H, W, 3) uint8, at each state of the history the latest frame until then.
    """

    states: Float32
    actions: Float32
    mask: Bool
    next_states: Float32
    columns: dict[str, Float32]
    episode: Int32
    tick: Int32
    source: UInt8
    images: Mapping[str, UInt8] = field(default_factory=dict[str, UInt8])
