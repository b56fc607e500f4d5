"""Episodes as a critic sees them: runs of states under the policy's own control, and how they ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robotrl.labels.credit import outcome_value
from robotrl.types import Episode, Float32, Int64


@dataclass(frozen=True)
class Experience:
    """n states in R runs. A run is a stretch of one episode without a person's hand in it.

    Attributes:
        states: (n, S) float32, run after run.
        episode: (n,) index of the episode each state is from.
        stop: (R,) row after each run's last state; `length` (R,) its states.
        outcome: (R,) 1 success, 0 failure, NaN when the run ended otherwise (a takeover, a cut): its end is then
            worth what the critic says, for no outcome crosses a takeover.
    """

    states: Float32
    episode: Int64
    stop: Int64
    length: Int64
    outcome: Float32

    @staticmethod
    def of(episodes: Sequence[Episode]) -> "Experience":
        """The policy's share of `episodes`. Demonstrations have none: they say nothing about the policy."""
        states: list[Float32] = []
        owners: list[Int64] = []
        outcomes: list[float] = []
        for index, episode in enumerate(episodes):
            for start, stop in autonomous_runs(episode):
                states.append(episode.state[start : stop + 1])
                owners.append(np.full(stop + 1 - start, index, np.int64))
                outcomes.append(outcome_value(episode) if stop == episode.length else np.nan)
        length = np.array([len(s) for s in states], np.int64)
        return Experience(
            states=np.concatenate(states) if states else np.zeros((0, 0), np.float32),
            episode=np.concatenate(owners) if owners else np.zeros(0, np.int64),
            stop=np.cumsum(length),
            length=length,
            outcome=np.array(outcomes, np.float32),
        )

    def targets(self, values: Float32, trace: float) -> Float32:
        """λ-returns (M, n) of the success probability, from current `values` (M, n) and λ = `trace`.

        G_t = (1 − λ) V(s_{t+1}) + λ G_{t+1}, and at a run's last state its outcome, or V where it has none. With
        λ = 1 this is the outcome itself; a smaller λ lets episodes that pass through like states share theirs.
        """
        targets = np.empty_like(values)
        last = self.stop - 1
        running = np.where(np.isnan(self.outcome), values[:, last], self.outcome).astype(np.float32)
        targets[:, last] = running
        for back in range(1, int(self.length.max())):
            live = self.length > back
            rows = last[live] - back
            running[:, live] = (1 - trace) * values[:, rows + 1] + trace * running[:, live]
            targets[:, rows] = running[:, live]
        return targets


def autonomous_runs(episode: Episode) -> list[tuple[int, int]]:
    """Tick ranges [start, stop) driven by the policy; state `stop` is where the run ended."""
    if episode.meta.source == "demonstration" or episode.length == 0:
        return []
    free = np.concatenate([[False], ~episode.intervention, [False]])
    edges = np.flatnonzero(free[1:] != free[:-1])
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
