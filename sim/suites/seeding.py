"""Suites that draw their starts from the generators of the whole process."""

import random
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np


@contextmanager
def process_generators(seed: int) -> Generator[None]:
    """Inside, NumPy's and Python's own generators are seeded with `seed`; afterwards they are as they were."""
    before, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002  nothing else reaches a suite's draws
    try:
        np.random.seed(seed % 2**32)  # noqa: NPY002  the largest that it takes
        random.seed(seed)
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
        random.setstate(pythons)
