"""Network calls whose bits depend neither on how many rows are asked for nor on the number of threads.

A matrix product may add in another order for another number of rows. So rows are padded to blocks of a fixed size,
each block is one single-threaded call, and blocks may run side by side.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robotrl.types import Float32


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="network", initializer=torch.set_num_threads, initargs=(1,))


@contextmanager
def torch_threads(count: int) -> Generator[None]:
    """Run the body with `count` threads inside an operation, and put the number back."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def map_blocks(function: Callable[..., Tensor], arrays: Sequence[NDArray[Any]], rows: int, threads: int = 1) -> Float32:
    """`function` of `arrays`, all (n, ...), in calls of exactly `rows` rows on up to `threads` threads.

    Returns (n, ...), the first rows of what the calls return. Missing rows of the last block repeat row 0.
    """
    count = len(arrays[0])
    if count == 0:
        raise ValueError(f"expected at least one row, got arrays of shapes {[a.shape for a in arrays]}")
    padding = -count % rows
    padded = [np.concatenate([a, np.repeat(a[:1], padding, axis=0)]) if padding else a for a in arrays]

    def run(start: int) -> Float32:
        with torch.inference_mode():
            return function(*(torch.from_numpy(np.array(a[start : start + rows])) for a in padded)).numpy()

    starts = range(0, count + padding, rows)
    if threads == 1 or len(starts) == 1:
        with torch_threads(1):
            results = [run(start) for start in starts]
    else:
        results = list(_pool(threads).map(run, starts))
    return np.concatenate(results)[:count]
