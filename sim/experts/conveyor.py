"""Phase table of `conveyor`: that of `pick_place`, in the frame of the belt until the cube is held."""

from dataclasses import replace

import numpy as np

from robotrl.types import Float64
from sim.experts import pick_place
from sim.experts.guide import Elements, Goal, Guide
from sim.tasks.conveyor import BELT_M
from sim.tasks.pick_place import SIDE_M

# The servos follow a target that moves by so much later.
_LAG_S = 0.12


def law(element: Elements) -> Goal:
    """Goal for every world: run along with the belt while fetching, then as in `pick_place`."""
    goal = pick_place.law(element)
    # A cube that fell off the belt stands still.
    riding = element("cube")[:, 2] > BELT_M + 0.5 * SIDE_M - 0.002
    fetching = (riding & (goal.phase < pick_place.PHASES.index("carry")))[:, None]
    lead: Float64 = element("belt") * _LAG_S * np.array([0.0, 1.0, 0.0])
    return replace(goal, shift=goal.shift + np.where(fetching, lead, 0.0))


GUIDE = Guide(pick_place.PHASES, law)
