"""Small, realistic values for tests: a spec with a scene, and finished episodes that look like real ones."""

from dataclasses import replace

import numpy as np

from robotrl.specs import ArraySpec, Capabilities, EnvironmentSpec, Frame, Primitive, SceneSpec
from robotrl.types import ChunkTable, ControlMode, Episode, EpisodeMeta, Outcome, Trigger

LINK = 0.3
ELEMENTS = ("joint.0", "joint.1", "joint.2", "gripper")


def scene() -> SceneSpec:
    """A three-joint arm with a gripper, a free peg and a table; physics is (time, q (3), gripper, peg pose (7))."""
    grey, orange = (0.6, 0.62, 0.66, 1.0), (0.9, 0.5, 0.1, 1.0)
    frames = (
        Frame("table", -1),
        Frame("link0", -1, (0.0, 0.0, 0.1), joint="hinge", axis=(0.0, 0.0, 1.0), address=1),
        Frame("link1", 1, (0.0, 0.0, 0.1), joint="hinge", axis=(0.0, 1.0, 0.0), address=2),
        Frame("link2", 2, (0.0, 0.0, LINK), joint="hinge", axis=(0.0, 1.0, 0.0), address=3),
        Frame("tool", 3, (0.0, 0.0, LINK)),
        Frame("finger", 4, joint="slide", axis=(1.0, 0.0, 0.0), address=4),
        Frame("peg", -1, joint="free", address=5),
    )
    upright = (1.0, 0.0, 0.0, 0.0)
    primitives = (
        Primitive("floor", -1, "plane", (0.8, 0.8, 0.0), (0.0, 0.0, -0.02), upright, (0.9, 0.9, 0.9, 1.0)),
        Primitive("top", 0, "box", (0.6, 0.6, 0.01), (0.0, 0.0, -0.01), upright, (0.8, 0.75, 0.7, 1.0)),
        Primitive("base", 1, "cylinder", (0.06, 0.05, 0.0), (0.0, 0.0, 0.0), upright, grey),
        Primitive("upper", 2, "capsule", (0.04, LINK / 2, 0.0), (0.0, 0.0, LINK / 2), upright, grey),
        Primitive("lower", 3, "capsule", (0.03, LINK / 2, 0.0), (0.0, 0.0, LINK / 2), upright, grey),
        Primitive("ball", 4, "sphere", (0.02, 0.0, 0.0), (0.0, 0.0, 0.0), upright, orange),
        Primitive("finger", 5, "box", (0.01, 0.01, 0.03), (0.0, 0.0, 0.03), upright, orange),
        Primitive("peg", 6, "box", (0.01, 0.01, 0.05), (0.0, 0.0, 0.0), upright, orange),
    )
    return SceneSpec(frames, primitives)


def array_spec(name: str, elements: tuple[str, ...], unit: str = "rad", bound: float = 3.0) -> ArraySpec:
    """A spec whose elements all have one unit and the bounds ± `bound`."""
    n = len(elements)
    return ArraySpec(name, elements, (unit,) * n, (-bound,) * n, (bound,) * n)


def spec(task: str = "insert", horizon: int = 300) -> EnvironmentSpec:
    """An `EnvironmentSpec` with three joints and a gripper: S = 11, P = 2, A = 4, X = 12."""
    pose = tuple(f"peg.{a}" for a in ("x", "y", "z", "qw", "qx", "qy", "qz"))
    return EnvironmentSpec(
        task=task,
        robot="arm",
        state=array_spec("state", (*ELEMENTS, *pose)),
        privileged=array_spec("privileged", ("contact", "phase"), unit="1"),
        action=array_spec("action", ELEMENTS),
        physics_size=12,
        control_hz=20.0,
        horizon=horizon,
        settle_ticks=10,
        instructions=("put the peg into the hole",),
        tool_frame="tool",
        scene=scene(),
        capabilities=Capabilities(snapshot=True, batched=True, faster_than_real_time=True),
    )


def _chunks(reach: np.ndarray, execute: int, length: int, rng: np.random.Generator) -> ChunkTable:
    """Chunks of `length` actions asked for every `execute` ticks of the joint path `reach` (T + 1, A)."""
    starts = np.arange(0, len(reach) - 1, execute, dtype=np.int32)
    ahead = np.minimum(starts[:, None] + np.arange(length) + 1, len(reach) - 1)
    offset = rng.normal(0.0, 0.03, (len(starts), 1, reach.shape[1]))
    return ChunkTable(
        actions=(reach[ahead] + offset).astype(np.float32),
        observed_tick=starts,
        start_tick=starts,
        policy_version=np.ones(len(starts), np.int32),
        noise=rng.normal(size=(len(starts), length, reach.shape[1])).astype(np.float32),
    )


def episode(
    ticks: int = 120,
    seed: int = 0,
    outcome: Outcome | None = "success",
    takeover: tuple[int, int] | None = (50, 70),
    execute: int = 8,
    chunk_length: int = 16,
    stage: str = "generate-1",
) -> Episode:
    """One finished episode of `spec()` with chunks, a takeover over ticks [start, stop), and a critic's probability.

    `ticks` may be 0: an episode with one state and no action, which readers must refuse or survive.
    """
    rng = np.random.default_rng(seed)
    phase = np.linspace(0.0, np.pi, ticks + 1)[:, None]
    reach = np.sin(phase * np.array([0.5, 0.8, 1.1, 1.0]) + rng.uniform(0, 0.3, 4)) * np.array([0.6, 0.8, 0.9, 0.02])
    reach = reach.astype(np.float32)
    peg = np.tile(np.array([0.4, 0.1, 0.05, 1.0, 0.0, 0.0, 0.0]), (ticks + 1, 1))
    peg[ticks // 2 :, 2] += 0.1
    time_s = np.arange(ticks + 1)[:, None] / 20.0
    chunks = _chunks(reach, execute, chunk_length, rng)
    tick = np.arange(ticks)
    human = np.zeros(ticks, bool)
    if takeover is not None:
        human[takeover[0] : takeover[1]] = True
    policy = chunks.actions[tick // execute, tick % execute] if ticks else np.zeros((0, 4), np.float32)
    by_hand = np.where(human[:, None], reach[1:], np.nan).astype(np.float32)
    action = np.where(human[:, None], reach[1:], policy).astype(np.float32)
    done = np.zeros(ticks, bool)
    done[-1:] = True
    success = (tick >= ticks - 10) & (outcome == "success")
    dip = 0.6 * np.exp(-(((tick - (takeover[0] if takeover else ticks)) / 12.0) ** 2))
    driven_s = float(human.sum()) / 20.0
    return Episode(
        meta=EpisodeMeta(
            episode_id=f"{seed:016x}",
            task="insert",
            instruction="put the peg into the hole",
            seed=1_000_000 + seed,
            stage=stage,
            source="takeover" if takeover else "autonomous",
            outcome=outcome,
            reason=outcome or "rewound",
            operator="simulated" if takeover else "",
            operator_s=driven_s,
            orient_s=1.0 if takeover else 0.0,
            environment=spec().fingerprint,
        ),
        state=np.concatenate([reach, peg], axis=1).astype(np.float32),
        privileged=np.zeros((ticks + 1, 2), np.float32),
        physics=np.concatenate([time_s, reach, peg], axis=1),
        action=action,
        action_requested=action,
        action_policy=policy,
        action_human=by_hand,
        control_mode=np.where(human, ControlMode.CORRECTION, ControlMode.AUTONOMOUS).astype(np.uint8),
        trigger=np.where(human, Trigger.ALARM, Trigger.NONE).astype(np.uint8),
        intervention=human,
        reward=success.astype(np.float32),
        probability=np.clip(0.7 + 0.2 * tick / max(ticks, 1) - dip, 0, 1).astype(np.float32),
        terminated=done & (outcome == "success"),
        truncated=done & (outcome != "success"),
        success=success,
        policy_version=np.where(human, -1, 1).astype(np.int32),
        chunk_id=np.where(human, -1, tick // execute).astype(np.int32),
        chunk_row=np.where(human, -1, tick % execute).astype(np.int32),
        delay_ticks=np.where(human, -1, 0).astype(np.int32),
        starved=tick == 30,
        clamped=np.zeros(ticks, np.uint8),
        time_ns=(np.arange(ticks + 1) * 50_000_000).astype(np.int64),
        chunks=chunks,
    )


def without_outcome(finished: Episode) -> Episode:
    """The same episode as if it had been cut (rewound)."""
    return replace(finished, meta=replace(finished.meta, outcome=None, reason="rewound"))
