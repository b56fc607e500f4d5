"""A binary tree of partial sums: drawing in proportion to values that change, both in O(log n)."""

import numpy as np

from robotrl.types import Float64, Int64


class SumTree:
    """n values ≥ 0. Node 1 is the root, node i has the children 2i and 2i + 1, and value k is leaf `capacity + k`."""

    def __init__(self, values: Float64) -> None:
        self._count = len(values)
        self._depth = max(self._count - 1, 0).bit_length()
        self._capacity = 1 << self._depth
        self._nodes = np.zeros(2 * self._capacity)
        self._nodes[self._capacity :][: self._count] = values
        level = self._capacity
        while level > 1:
            sums = self._nodes[level : 2 * level]
            level //= 2
            self._nodes[level : 2 * level] = sums[::2] + sums[1::2]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Int64) -> Float64:
        """The values at `index` (n,)."""
        return self._nodes[self._capacity + index]

    @property
    def total(self) -> float:
        """Sum of all values."""
        return float(self._nodes[1])

    def update(self, index: Int64, values: Float64) -> None:
        """Set the values at `index` (n,); the last counts where one repeats."""
        nodes = self._capacity + np.asarray(index)
        self._nodes[nodes] = values
        for _ in range(self._depth):
            # Sums are taken anew, not corrected by differences, so that rounding does not add up.
            nodes = np.unique(nodes // 2)
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, share: Float64) -> Int64:
        """The first index whose cumulative sum exceeds `share` (n,) in [0, 1) of the total; never one of value 0.

        The total must be positive.
        """
        rest = share * self.total
        node = np.ones(len(share), np.int64)
        for _ in range(self._depth):
            node *= 2
            left = self._nodes[node]
            # A rest that rounding made too large would fall off the end: where nothing is to the right, stay left.
            right = (rest >= left) & (self._nodes[node + 1] > 0)
            rest = np.where(right, rest - left, rest)
            node += right
        return node - self._capacity
