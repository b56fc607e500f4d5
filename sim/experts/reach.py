"""Phase table of `reach`."""

import numpy as np

from sim.experts.guide import OPEN_M, Elements, Goal, Guide, freedom_at, norm, tool_to_world, upright

PHASES = ("approach",)


def law(element: Elements) -> Goal:
    """Goal for every world: straight to the ball, pointing down where the arm has the joints for both."""
    tool = element("tool")
    way = tool_to_world(tool, element("tool_to_ball"))
    count = len(way)
    down = upright(tool[:, 6:9], -1.0) if len(element.robot.arms[0].joints) >= 6 else np.zeros((count, 3))
    return Goal(
        shift=way,
        turn=down,
        opening=np.full(count, OPEN_M),
        phase=np.zeros(count, np.int64),
        freedom=freedom_at(norm(way), 0.02),
    )


GUIDE = Guide(PHASES, law)
