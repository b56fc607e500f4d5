import time

import pytest

from robotrl.errors import ConfigurationError
from robotrl.rollout.clocks import MonotonicClock
from robotrl.rollout.latency import UniformLatency
from robotrl.seeds import RANGES, seed_range


def test_the_monotonic_clock_keeps_to_its_grid():
    clock, start = MonotonicClock(control_hz=100), time.monotonic()
    assert sum(clock.pace(tick) for tick in range(11)) == clock.overruns
    assert time.monotonic() - start >= 0.1


def test_a_late_tick_is_counted_and_never_caught_up():
    clock = MonotonicClock(control_hz=100)
    clock.pace(0)
    time.sleep(0.055)
    assert clock.pace(1) >= 4
    before = time.monotonic()
    clock.pace(2)
    clock.pace(3)
    assert time.monotonic() - before >= 0.01
    assert clock.overruns >= 4


def test_latency_bounds_are_checked():
    with pytest.raises(ConfigurationError, match="low=3 high=1"):
        UniformLatency(3, 1)


def test_latency_draws_stay_inside_their_bounds():
    draws = {UniformLatency(1, 3).ticks(0, i) for i in range(100)}
    assert draws == {1, 2, 3}


def test_seed_ranges_are_disjoint():
    blocks = [set(r.block(1000).tolist()) | {r.start + 999_999_999} for r in RANGES.values()]
    assert sum(map(len, blocks)) == len(set().union(*blocks))


def test_blocks_outside_a_range_or_empty_are_refused():
    for count, offset in ((0, 0), (-1, 0), (2, 999_999_999)):
        with pytest.raises(ConfigurationError):
            seed_range("gate").block(count, offset)


def test_an_unknown_range_names_the_nearest():
    with pytest.raises(ConfigurationError, match="Did you mean 'final'"):
        seed_range("finale")
