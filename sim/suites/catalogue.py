"""Which suites there are, what is in them, and which of them can be listed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sim.suites import aloha, metaworld, ogbench, robosuite


@dataclass(frozen=True)
class Suite:
    """A suite: what it is, and the names of its tasks; None where there is no end of them."""

    summary: str
    tasks: Callable[[], Iterable[str]] | None = None


SUITES: dict[str, Suite] = {
    "aloha": Suite("gym-aloha: two ViperX arms", lambda: aloha.TASKS),
    "gymnasium": Suite("any Gymnasium environment with a box of actions"),
    "lerobot": Suite("what LeRobot's make_env makes"),
    "metaworld": Suite("Meta-World: a Sawyer arm, with scripted experts", metaworld.tasks),
    "ogbench": Suite("OGBench: manipulation with one goal each", ogbench.tasks),
    "robosuite": Suite("robosuite: one arm or two, many robots", robosuite.tasks),
}
"""`task=suites/NAME` → the suite."""
