"""Where the parts of an exported LeRobot data set go: neighbouring episodes share files."""

from dataclasses import dataclass
from pathlib import Path

from robotrl.data.exchange.selection import Export, Item
from robotrl.data.exchange.sidecar import DIRECTORY

FILES_PER_CHUNK = 1000
_TICKS_PER_FILE = 100_000
_VIDEO_S = 1000.0
"""Video a file: LeRobot compares times in float32 with a tolerance of 0.1 ms, which fails in longer ones."""
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
SIDECAR = DIRECTORY + "/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


@dataclass(frozen=True)
class Group:
    """Neighbouring episodes that share files. `first`: places of its first episode and tick in the data set."""

    number: int
    items: tuple[Item, ...]
    first_episode: int
    first_tick: int

    @property
    def ticks(self) -> int:
        """Ticks of all its episodes."""
        return sum(item.entry.length for item in self.items)

    def path(self, root: Path, template: str, video_key: str = "") -> Path:
        """Its file of one kind: `template` is DATA, VIDEO (of the feature `video_key`), EPISODES or SIDECAR."""
        return root / template.format(video_key=video_key, **self.place)

    @property
    def place(self) -> dict[str, int]:
        """`chunk_index` and `file_index`, by which LeRobot names files."""
        chunk, file = divmod(self.number, FILES_PER_CHUNK)
        return {"chunk_index": chunk, "file_index": file}


def grouped(plan: Export) -> list[Group]:
    """The groups of an export, in order; equal exports have equal groups, so that one can be continued."""
    most = min(_TICKS_PER_FILE, int(_VIDEO_S * plan.spec.control_hz)) if plan.cameras else _TICKS_PER_FILE
    groups: list[Group] = []
    items: list[Item] = []
    episode = tick = ticks = 0
    for item in (*plan.items, None):
        if items and (item is None or ticks + item.entry.length > most):
            groups.append(Group(len(groups), tuple(items), episode, tick))
            episode, tick, items, ticks = episode + len(items), tick + ticks, [], 0
        if item is not None:
            items.append(item)
            ticks += item.entry.length
    return groups
