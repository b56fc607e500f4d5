"""Bimanual insertion: each arm picks up a part, and the peg goes into the socket in the air."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robotrl.errors import ConfigurationError
from robotrl.types import Bool, Float64, Int64
from sim.robots import Robot
from sim.tasks.base import (
    FAILURES,
    FIRST,
    Block,
    Measurement,
    Pose,
    Task,
    View,
    box_xml,
    lost,
    on_end,
    place_in,
    rod_heading,
    rod_yaw,
    square_yaw,
)
from sim.tasks.carrying import grasped, nearness, reached

PEG_M, PEG_LENGTH_M = 0.026, 0.12
"""Side and length of the peg."""
SOCKET_M, SOCKET_LENGTH_M = 0.046, 0.08
"""Side and length of the socket; the walls are as thick as the clearance leaves them."""
DEPTH_M = 0.04
"""How deep the peg is in the socket when `peg_to_socket` is zero."""
# From a part's middle to where it is held: along its heading, and up. The peg is so low that the pads, 25 mm high,
# would stand on the table around its middle.
_PEG_GRASP_M, _SOCKET_GRASP_M = (0.032, 0.004), (-0.015, 0.0)
_AROUND_M = (0.022, 0.006, 0.018)
_ENOUGH_M, _RAISED_M = 0.008, 0.06


@dataclass(frozen=True)
class BimanualInsert(Task):
    """A peg of 26 mm into a socket, a square tube, each held by one arm; 32 mm deep above the table is success.

    Frames are the parts' centres; their headings are their long axes, towards the right arm, as a part's two ends are
    alike. `left_to_socket` and `right_to_peg` are zero when a tool is at the grasp point of its part. `peg_to_socket`,
    along the world's axes, is zero when the peg is 40 mm deep; its roll is about the heading.

    Attributes:
        clearance_m: gap on each side of a centred peg.
    """

    time_limit_s: float = 20.0
    clearance_m: float = 0.003

    name: ClassVar[str] = "bimanual_insert"
    robots: ClassVar[tuple[str, ...]] = ("aloha",)
    instructions: ClassVar[tuple[str, ...]] = ("pick up the peg and the socket and insert the peg",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.001 <= self.clearance_m <= 0.006:
            raise ConfigurationError(f"bimanual_insert.clearance_m: expected 0.001 to 0.006 m, got {self.clearance_m}")

    def objects(self, robot: Robot) -> str:
        """The socket, four walls around a square hole, and the peg."""
        half, outer, long = 0.5 * PEG_M, 0.5 * SOCKET_M, 0.5 * SOCKET_LENGTH_M
        inner = half + self.clearance_m
        thick, middle = 0.5 * (outer - inner), 0.5 * (outer + inner)
        walls = ""
        for name, y, z, size_y, size_z in (
            ("top", 0, middle, outer, thick),
            ("bottom", 0, -middle, outer, thick),
            ("front", -middle, 0, thick, inner),
            ("back", middle, 0, thick, inner),
        ):
            walls += box_xml(
                f"socket_{name}", "object", (long, size_y, size_z), (0, y, z), "0.25 0.4 0.55 1", mass=0.02
            )
        peg = box_xml("peg", "object", (0.5 * PEG_LENGTH_M, half, half), (0, 0, 0), "0.9 0.45 0.2 1", mass=0.06)
        return f"""
    <body name="socket" pos="-0.27 0 {outer}"><freejoint name="socket"/>{walls}</body>
    <body name="peg" pos="0.27 0 {half}"><freejoint name="peg"/>{peg}</body>"""

    def draw(self, view: View, rng: np.random.Generator, instruction: int = 0) -> Float64:
        """Socket and peg anywhere in their areas of the workspace, both turned, the arms somewhere above."""
        places = place_in([view.robot.workspace.objects, view.robot.workspace.goals], self.spread, rng)
        physics = view.random_arms(rng, self.spread)
        for name, place, width in zip(("socket", "peg"), places, (SOCKET_M, PEG_M), strict=True):
            view.place(physics, name, (*place, 0.5 * width), self.spread * rng.uniform(-np.pi / 6, np.pi / 6))
        return physics

    def measure(self, view: View, physics: Float64, instruction: Int64 = FIRST) -> Measurement:
        """See `Task.measure`."""
        left, right, socket, peg = view.poses(physics, *(arm.tool for arm in view.robot.arms), "socket", "peg")
        socket_heading, peg_heading = rod_heading(socket), rod_heading(peg)
        left_to_socket = _to_grasp(left, socket, socket_heading, _SOCKET_GRASP_M)
        right_to_peg = _to_grasp(right, peg, peg_heading, _PEG_GRASP_M)
        apart = 0.5 * (SOCKET_LENGTH_M + PEG_LENGTH_M) - DEPTH_M
        peg_to_socket = socket.position + apart * socket_heading - peg.position
        state = (
            *view.robot_blocks(physics, left, right),
            Block("socket", ("x", "y", "z"), "m", -1.0, 1.0, socket.position),
            Block("socket", ("xx", "xy", "xz"), "1", -1.0, 1.0, socket_heading),
            Block("peg", ("x", "y", "z"), "m", -1.0, 1.0, peg.position),
            Block("peg", ("xx", "xy", "xz"), "1", -1.0, 1.0, peg_heading),
            Block("left_to_socket", ("x", "y", "z"), "m", -1.0, 1.0, left_to_socket),
            Block("left_to_socket", ("yaw",), "rad", -1.6, 1.6, rod_yaw(left, socket_heading)),
            Block("right_to_peg", ("x", "y", "z"), "m", -1.0, 1.0, right_to_peg),
            Block("right_to_peg", ("yaw",), "rad", -1.6, 1.6, rod_yaw(right, peg_heading)),
            Block("peg_to_socket", ("x", "y", "z"), "m", -1.0, 1.0, peg_to_socket),
            Block("peg_to_socket", ("roll",), "rad", -0.8, 0.8, _roll(peg, socket)),
        )
        openings = [view.opening(physics, arm) for arm in view.robot.arms]
        stages = self._checkpoints(openings, left_to_socket, right_to_peg, peg_to_socket, socket_heading, peg, socket)
        held = stages["socket_held"] & stages["peg_held"]
        success = held & stages["raised"] & stages["inserted"]
        tipped = on_end(socket_heading) | on_end(peg_heading)
        gone = lost(socket, view.robot.workspace.reach) | lost(peg, view.robot.workspace.reach)
        code = np.where(tipped, FAILURES.index("tipped"), 0)
        failure = np.where(gone, FAILURES.index("out_of_reach"), code).astype(np.uint8)
        fetching = 0.1 * (nearness(left_to_socket) + nearness(right_to_peg))
        holding = 0.1 * stages["socket_held"] + 0.1 * stages["peg_held"]
        joining = held * (0.1 * stages["raised"] + 0.3 * nearness(peg_to_socket) + 0.1 * stages["inserted"])
        reward = np.where(success, 1.0, fetching + holding + joining)
        return Measurement(state, view.privileged_blocks(physics, stages), reward, success, failure)

    def _checkpoints(
        self,
        openings: list[Float64],
        to_socket: Float64,
        to_peg: Float64,
        missing: Float64,
        heading: Float64,
        peg: Pose,
        socket: Pose,
    ) -> dict[str, Bool]:
        """The stages (...) that hold at this moment; `missing` (..., 3) m is the peg's way into the socket."""
        left, right = openings
        depth = (missing * heading).sum(-1)
        aside = np.sqrt(np.square(missing - depth[..., None] * heading).sum(-1))
        # The largest distance off the axis is that of a corner.
        aligned = aside < 1.5 * self.clearance_m + 0.001
        return {
            "socket_reached": reached(to_socket),
            "peg_reached": reached(to_peg),
            "socket_held": grasped(left, to_socket, SOCKET_M, _AROUND_M),
            "peg_held": grasped(right, to_peg, PEG_M, _AROUND_M),
            "raised": np.minimum(socket.position[..., 2], peg.position[..., 2]) > _RAISED_M,
            "aligned": aligned,
            "inserted": aligned & (depth > -_ENOUGH_M) & (depth < 0.02),
        }


def _to_grasp(tool: Pose, part: Pose, heading: Float64, at: tuple[float, float]) -> Float64:
    """From the tool to where it holds the part, `at` m along its heading and up: (..., 3) m in the tool's frame."""
    along, up = at
    return tool.local(part.position + along * heading + np.array([0.0, 0.0, up]) - tool.position)


def _roll(peg: Pose, socket: Pose) -> Float64:
    """Turn (..., 1) rad about the peg's heading that lines its sides up with the socket's, in [-45°, 45°)."""
    along = [Pose(part.position, part.rotation[..., [1, 2, 0]]) for part in (peg, socket)]
    roll = square_yaw(*along)
    return np.where(peg.rotation[..., 0, 0:1] < 0.0, -roll, roll)
