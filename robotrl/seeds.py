"""Named, disjoint ranges of seeds, episode ids, and one noise generator for every purpose.

Training never sees a seed of `gate` or `final`; a test holds the ranges apart.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

from robotrl.errors import ConfigurationError, unknown_name
from robotrl.types import Int64

_SPAN = 1_000_000_000


@dataclass(frozen=True)
class SeedRange:
    """Seeds [start, start + 1,000,000,000) reserved for one use."""

    name: str
    start: int

    def block(self, count: int, offset: int = 0) -> Int64:
        """`count` seeds from `offset` on, int64. Raises when they do not fit or `count` is not positive."""
        if count <= 0:
            raise ConfigurationError(f"asked for {count} seeds of '{self.name}'; expected at least 1")
        if offset < 0 or offset + count > _SPAN:
            raise ConfigurationError(f"seeds {offset}..{offset + count} leave the range '{self.name}' of {_SPAN} seeds")
        return np.arange(self.start + offset, self.start + offset + count, dtype=np.int64)

    def draw(self, rng: np.random.Generator) -> int:
        """Any seed of the range."""
        return self.start + int(rng.integers(_SPAN))


RANGES = {name: SeedRange(name, (i + 1) * _SPAN) for i, name in enumerate(("train", "validation", "gate", "final"))}


def seed_range(name: str) -> SeedRange:
    """The range called `name`: train, validation, gate, or final (touched once per report)."""
    if name not in RANGES:
        raise unknown_name("seed range", name, RANGES)
    return RANGES[name]


def episode_id(run: str, stage: str, seed: int, branch: str = "0") -> str:
    """Sixteen hex digits from run, stage, seed and branch (`Branch.key`): the same episode always gets the same id."""
    return hashlib.sha256(f"{run}\0{stage}\0{seed}\0{branch}".encode()).hexdigest()[:16]


def generator(seed: int, *keys: int | str) -> np.random.Generator:
    """A counter-based generator for one purpose.

    Equal arguments give equal streams and different ones independent streams, whatever else the process draws.
    """
    digest = hashlib.blake2b("\0".join(map(str, (seed, *keys))).encode(), digest_size=16).digest()
    # The stub leaves out that a bit generator takes its key from any `ISeedSequence`.
    return np.random.Generator(np.random.Philox(_Key(digest)))  # pyright: ignore[reportArgumentType]


class _Key(ISeedSequence):
    """The key of a bit generator. One that is given its `key` instead asks the system for entropy first, in vain."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint32) -> NDArray[np.unsignedinteger]:
        """The key as `n_words` numbers."""
        return np.frombuffer(self._digest, dtype, n_words)
