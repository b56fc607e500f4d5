"""How two versions of annotations differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robotrl.data.annotations import Annotations, TickColumns


@dataclass(frozen=True)
class ColumnDifference:
    """One column over the episodes that both versions cover.

    Attributes:
        ticks: compared; `changed`: unequal ones (NaN equals NaN).
        mean, largest: absolute difference over the changed ticks where both are finite; 0 without any.
        where: episode and tick of the largest difference, or None.
    """

    name: str
    ticks: int
    changed: int
    mean: float
    largest: float
    where: tuple[str, int] | None


@dataclass(frozen=True)
class AnnotationDifference:
    """What changed from a version A to a version B.

    Attributes:
        columns: those that both have.
        columns_added, columns_removed: names in B alone, in A alone.
        added, removed: ids of episodes in B alone, in A alone.
        lineage: key → (value in A, value in B), None where it is missing.
    """

    columns: tuple[ColumnDifference, ...]
    columns_added: tuple[str, ...]
    columns_removed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    lineage: Mapping[str, tuple[Any, Any]]

    @property
    def equal(self) -> bool:
        """Whether the columns say the same of the same episodes; their lineage may differ."""
        same_names = not (self.columns_added or self.columns_removed or self.added or self.removed)
        return same_names and not any(column.changed for column in self.columns)


def compare_annotations(before: Annotations, after: Annotations) -> AnnotationDifference:
    """The difference, episode by episode."""
    both = [i for i in before.columns if i in after.columns]
    old, new = _names(before), _names(after)
    pairs = {i: (before.columns[i], after.columns[i]) for i in both}
    keys = sorted(before.lineage.keys() | after.lineage.keys())
    return AnnotationDifference(
        columns=tuple(_column(name, pairs) for name in sorted(old & new)),
        columns_added=tuple(sorted(new - old)),
        columns_removed=tuple(sorted(old - new)),
        added=tuple(i for i in after.columns if i not in before.columns),
        removed=tuple(i for i in before.columns if i not in after.columns),
        lineage={
            key: (before.lineage.get(key), after.lineage.get(key))
            for key in keys
            if before.lineage.get(key) != after.lineage.get(key)
        },
    )


def _names(annotations: Annotations) -> set[str]:
    return set(next(iter(annotations.columns.values()), {}))


def _column(name: str, pairs: Mapping[str, tuple[TickColumns, TickColumns]]) -> ColumnDifference:
    ticks = changed = measured = 0
    total, largest, where = 0.0, 0.0, None
    for id_, (before, after) in pairs.items():
        a, b = np.asarray(before[name], np.float64), np.asarray(after[name], np.float64)
        ticks += max(len(a), len(b))
        # A store whose episode was removed and recorded again may have columns of two lengths.
        changed += abs(len(a) - len(b))
        a, b = a[: len(b)], b[: len(a)]
        unequal = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        changed += int(unequal.sum())
        finite = unequal & np.isfinite(a) & np.isfinite(b)
        gap = np.abs(a[finite] - b[finite])
        measured, total = measured + len(gap), total + float(gap.sum())
        if gap.size and gap.max() > largest:
            largest, where = float(gap.max()), (id_, int(np.flatnonzero(finite)[gap.argmax()]))
    return ColumnDifference(name, ticks, changed, total / max(measured, 1), largest, where)
