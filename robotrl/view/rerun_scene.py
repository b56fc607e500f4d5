"""The scene of an episode as Rerun shapes under moving frames, and the paths of the tool through it.

Everything is posed from `Episode.physics` by forward kinematics, so no simulator and no graphics context is needed.
"""

import numpy as np
import rerun as rr

from robotrl.kinematics import poses
from robotrl.specs import EnvironmentSpec, Primitive, SceneSpec
from robotrl.types import ControlMode, Episode, Float32, Float64
from robotrl.view.rerun_time import Timeline, runs

MODE_COLOURS: dict[ControlMode, tuple[int, int, int]] = {
    ControlMode.AUTONOMOUS: (76, 139, 245),
    ControlMode.PAUSED: (150, 150, 150),
    ControlMode.REWIND: (171, 113, 219),
    ControlMode.RECOVERY: (242, 174, 46),
    ControlMode.CORRECTION: (46, 178, 120),
    ControlMode.RESET: (110, 110, 120),
}
_UNBOUNDED_PLANE_M = 1.0
_SHEET_M = 5e-4


def _xyzw(quaternion: Float64) -> Float64:
    """Rerun's order of (..., 4) quaternions; ours is wxyz."""
    return np.roll(quaternion, -1, axis=-1)


def _half_sizes(shape: Primitive) -> tuple[float, float, float]:
    """Half extents (3,) m of a box, a sphere, or a plane, which is drawn as a thin sheet."""
    x, y, z = shape.size
    if shape.shape == "sphere":
        return x, x, x
    if shape.shape == "plane":
        return x or _UNBOUNDED_PLANE_M, y or _UNBOUNDED_PLANE_M, _SHEET_M
    return x, y, z


def _archetype(shapes: list[Primitive]) -> rr.AsComponents:
    """Primitives of one kind on one frame, as one batch with their names as (hidden) labels."""
    kind = shapes[0].shape
    at = np.array([s.position for s in shapes])
    turn = _xyzw(np.array([s.quaternion for s in shapes]))
    colours = (np.array([s.rgba for s in shapes]) * 255).astype(np.uint8)
    names = [s.name for s in shapes]
    solid = rr.components.FillMode.Solid
    if kind == "capsule":
        # Rerun's capsule starts at its translation and runs along +z; ours is centred.
        half = np.array([s.size[1] for s in shapes])
        start = at - half[:, None] * _z_axis(np.array([s.quaternion for s in shapes]))
        return rr.Capsules3D(
            lengths=2 * half, radii=[s.size[0] for s in shapes], translations=start, quaternions=turn,
            colors=colours, fill_mode=solid, labels=names, show_labels=False,
        )  # fmt: skip
    if kind == "cylinder":
        return rr.Cylinders3D(
            lengths=[2 * s.size[1] for s in shapes], radii=[s.size[0] for s in shapes], centers=at, quaternions=turn,
            colors=colours, fill_mode=solid, labels=names, show_labels=False,
        )  # fmt: skip
    archetype = rr.Ellipsoids3D if kind == "sphere" else rr.Boxes3D
    return archetype(
        half_sizes=[_half_sizes(s) for s in shapes], centers=at, quaternions=turn,
        colors=colours, fill_mode=solid, labels=names, show_labels=False,
    )  # fmt: skip


def _z_axis(quaternion: Float64) -> Float64:
    """Third column (n, 3) of the rotations that unit `quaternion` (n, 4) wxyz describes."""
    w, x, y, z = np.moveaxis(quaternion, -1, 0)
    return np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], axis=-1)


def _path(scene: SceneSpec, frame: int) -> str:
    """Entity of a frame; −1 is the world, which never moves."""
    return rr.new_entity_path(["scene", "world" if frame < 0 else scene.frames[frame].name])


def log_shapes(recording: rr.RecordingStream, scene: SceneSpec) -> None:
    """Log every primitive once, under the entity of its frame."""
    recording.log("scene", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True, strict=True)
    groups: dict[tuple[int, str], list[Primitive]] = {}
    for shape in scene.primitives:
        groups.setdefault((shape.frame, shape.shape), []).append(shape)
    for (frame, kind), shapes in groups.items():
        recording.log(f"{_path(scene, frame)}/{kind}", _archetype(shapes), static=True, strict=True)


def log_motion(recording: rr.RecordingStream, spec: EnvironmentSpec, physics: Float64, timeline: Timeline) -> None:
    """Log the pose of every frame that carries a shape, and of the tool, at the ticks of `physics` (R, X).

    A frame that never moves is logged once; rows that are not finite (a diverged world) are left out.
    """
    scene = spec.scene
    drawn = sorted({shape.frame for shape in scene.primitives if shape.frame >= 0} | {scene.frame(spec.tool_frame)})
    positions, quaternions = poses(scene, physics, drawn)
    for column, frame in enumerate(drawn):
        at, turn = positions[:, column], _xyzw(quaternions[:, column])
        finite = np.isfinite(at).all(-1) & np.isfinite(turn).all(-1)
        if not finite.any():
            continue
        at, turn = at[finite], turn[finite]
        if (at == at[0]).all() and (turn == turn[0]).all():
            pose = rr.Transform3D(translation=at[0], quaternion=turn[0])
            recording.log(_path(scene, frame), pose, static=True, strict=True)
        else:
            columns = rr.Transform3D.columns(translation=at, quaternion=turn)
            recording.send_columns(_path(scene, frame), timeline.at(np.flatnonzero(finite)), columns, strict=True)


def log_pose(recording: rr.RecordingStream, scene: SceneSpec, physics: Float64) -> None:
    """Log where every frame that carries a shape is in `physics` (X,), at the recording's present time."""
    drawn = sorted({shape.frame for shape in scene.primitives if shape.frame >= 0})
    positions, quaternions = poses(scene, physics, drawn)
    for frame, at, turn in zip(drawn, positions, _xyzw(quaternions), strict=True):
        recording.log(_path(scene, frame), rr.Transform3D(translation=at, quaternion=turn))


def log_tool_path(recording: rr.RecordingStream, spec: EnvironmentSpec, episode: Episode) -> None:
    """Log where the tool went, one line strip for every stretch of one control mode, in that mode's colour."""
    tool = poses(spec.scene, episode.physics, [spec.scene.frame(spec.tool_frame)])[0][:, 0]
    strips: list[Float64] = []
    colours: list[tuple[int, int, int]] = []
    for start, stop in runs(episode.control_mode):
        strip = tool[start : stop + 1]
        strips.append(strip[np.isfinite(strip).all(-1)])
        colours.append(MODE_COLOURS[ControlMode(int(episode.control_mode[start]))])
    recording.log("scene/tool_path", rr.LineStrips3D(strips, colors=colours, radii=0.0015), static=True, strict=True)


def _arm_addresses(spec: EnvironmentSpec) -> tuple[list[int], list[int]] | None:
    """Action elements that are angles, and the physics addresses of the hinges from the base to the tool.

    None unless there are as many of one as of the other: then actions are not joint angles of this chain.
    """
    frames = spec.scene.frames
    addresses: list[int] = []
    index = spec.scene.frame(spec.tool_frame)
    while index >= 0:
        if frames[index].joint == "hinge":
            addresses.insert(0, frames[index].address)
        index = frames[index].parent
    elements = [i for i, unit in enumerate(spec.action.units) if unit == "rad"][: len(addresses)]
    return (elements, addresses) if addresses and len(elements) == len(addresses) else None


def log_planned_paths(
    recording: rr.RecordingStream, spec: EnvironmentSpec, episode: Episode, timeline: Timeline
) -> None:
    """Log the tool path that the joint targets of the acting chunk describe; none while no chunk acts.

    Only for actions that are joint angles.
    """
    arm = _arm_addresses(spec)
    if arm is None or not (episode.chunk_id >= 0).any():
        return
    elements, addresses = arm
    starts = np.array([start for start, _ in runs(episode.chunk_id)])
    acting = episode.chunk_id[starts]
    chunks = acting[acting >= 0]
    targets: Float32 = episode.chunks.actions[chunks]
    physics = np.repeat(episode.physics[episode.chunks.observed_tick[chunks], None], targets.shape[1], axis=1)
    physics[..., addresses] = targets[..., elements]
    tool = poses(spec.scene, physics, [spec.scene.frame(spec.tool_frame)])[0][..., 0, :].astype(np.float32)
    drawn = np.zeros(len(starts), np.int32)
    drawn[acting >= 0] = np.isfinite(tool).all((1, 2))
    strips = rr.LineStrips3D.columns(strips=list(tool[drawn[acting >= 0] > 0])).partition(drawn)
    style = rr.LineStrips3D.from_fields(colors=[(242, 174, 46)], radii=[0.001])
    recording.log("scene/planned_path", style, static=True, strict=True)
    recording.send_columns("scene/planned_path", timeline.at(starts), strips, strict=True)
