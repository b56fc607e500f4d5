import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.errors import ConfigurationError
from robotrl.rollout.execution import ChunkExecutor, NaiveAsync, Synchronous
from robotrl.types import ActionChunk

H, A = 16, 2


def chunk_at(tick: int, chunk_id: int) -> np.ndarray:
    """Actions that name their own chunk and row."""
    return np.stack([np.full(H, chunk_id), np.arange(H)], axis=1).astype(np.float32)[None]


def drive(
    executor: ChunkExecutor, delays: list[int], ticks: int, stride: int | None
) -> list[tuple[int, int, int, bool]]:
    """Run one world; (chunk, row, delay, starved) of every tick. `stride` forces single ticks when 1."""
    rows, tick, asked, out = np.array([0]), np.zeros(1, np.int64), 0, []
    executor.new_epoch(rows, np.full((1, A), -1, np.float32))
    mask = np.ones(1, bool)
    while len(out) < ticks:
        if executor.due(tick, mask).size:
            chunk = ActionChunk(rows, chunk_at(int(tick[0]), asked), tick.copy(), policy_version=0)
            executor.submit(chunk, np.array([delays[asked % len(delays)]]), np.array([asked]))
            asked += 1
        count = stride or executor.ticks_to_event(tick, mask)
        plan = executor.schedule(tick, count, mask)
        for k in range(count):
            out.append(tuple(int(x[0, k]) for x in (plan.chunk_id, plan.chunk_row, plan.delay_ticks, plan.starved)))
            if not plan.starved[0, k]:
                np.testing.assert_array_equal(plan.actions[0, k], [plan.chunk_id[0, k], plan.chunk_row[0, k]])
        tick += count
    return out[:ticks]


def test_without_delay_both_modes_run_each_chunk_for_its_executed_rows():
    for mode in (Synchronous(), NaiveAsync()):
        ran = drive(ChunkExecutor(mode, 1, H, 8, A), [0], 32, None)
        assert [(c, r) for c, r, _, _ in ran] == [(t // 8, t % 8) for t in range(32)]


def test_synchronous_holds_for_the_delay_and_starts_each_chunk_at_row_zero():
    ran = drive(ChunkExecutor(Synchronous(), 1, H, 8, A, forecast=3), [3], 33, None)
    assert [s for *_, s in ran] == ([True] * 3 + [False] * 8) * 3
    assert [r for _, r, _, s in ran if not s] == list(range(8)) * 3


def test_asynchronous_executes_row_equal_to_ticks_since_the_observation():
    ran = drive(ChunkExecutor(NaiveAsync(), 1, H, 8, A, forecast=3), [3], 40, None)
    assert [s for *_, s in ran] == [True] * 3 + [False] * 37
    assert [(c, r) for c, r, _, s in ran if not s][:8] == [(0, r) for r in range(3, 11)]
    assert [(c, r) for c, r, _, s in ran if not s][8:16] == [(1, r) for r in range(3, 11)]
    assert {d for _, _, d, s in ran if not s} == {3}


def test_a_late_chunk_starves_the_robot_which_holds_its_last_target():
    executor = ChunkExecutor(NaiveAsync(), 1, H, 8, A)
    ran = drive(executor, [0, 12], 60, None)
    assert sum(s for *_, s in ran) > 0


@settings(deadline=None, max_examples=60)
@given(
    delays=st.lists(st.integers(0, 20), min_size=1, max_size=6), synchronous=st.booleans(), execute=st.integers(1, H)
)
def test_advancing_by_events_equals_advancing_by_single_ticks(delays, synchronous, execute):
    mode = Synchronous() if synchronous else NaiveAsync()
    by_event = drive(ChunkExecutor(mode, 1, H, execute, A), delays, 80, None)
    assert by_event == drive(ChunkExecutor(mode, 1, H, execute, A), delays, 80, 1)
    for chunk, row, delay, starved in by_event:
        assert starved == (chunk < 0) == (row < 0) == (delay < 0)


def test_a_new_epoch_discards_chunks_running_and_in_flight():
    executor, rows = ChunkExecutor(NaiveAsync(), 1, H, 8, A), np.array([0])
    executor.new_epoch(rows, np.zeros((1, A), np.float32))
    executor.submit(ActionChunk(rows, chunk_at(0, 0), np.array([0]), 0), np.array([2]), np.array([0]))
    executor.new_epoch(rows, np.full((1, A), 7, np.float32))
    plan = executor.schedule(np.array([5]), 3, np.ones(1, bool))
    assert plan.starved.all()
    assert (plan.actions == 7).all()
    assert executor.due(np.array([5]), np.ones(1, bool)).tolist() == [0]


def test_committed_actions_are_those_that_will_run_during_the_forecast_delay():
    executor, rows = ChunkExecutor(NaiveAsync(), 1, H, 8, A, forecast=4), np.array([0])
    executor.new_epoch(rows, np.zeros((1, A), np.float32))
    executor.submit(ActionChunk(rows, chunk_at(0, 5), np.array([0]), 0), np.array([0]), np.array([5]))
    executor.schedule(np.array([0]), 8, np.ones(1, bool))
    committed = executor.committed(rows, np.array([8]))
    assert committed.length.tolist() == [4]
    assert committed.actions[0, :, 1].tolist() == [8, 9, 10, 11]


@pytest.mark.parametrize(("execute", "forecast"), [(0, 0), (17, 0), (8, 9), (12, 6)])
def test_impossible_schedules_are_refused_with_the_figures(execute, forecast):
    with pytest.raises(ConfigurationError, match=str(execute)):
        ChunkExecutor(NaiveAsync(), 1, H, execute, A, forecast)


def test_an_action_that_does_not_last_is_zero_where_none_is_ready():
    executor, rows = ChunkExecutor(Synchronous(), 1, H, 8, A, momentary=np.array([True, False])), np.array([0])
    executor.new_epoch(rows, np.array([[5.0, 6.0]], np.float32))
    plan = executor.schedule(np.zeros(1, np.int64), 2, np.ones(1, bool))
    np.testing.assert_array_equal(plan.actions[0], [[0, 6], [0, 6]])
    executor.submit(
        ActionChunk(rows, np.full((1, H, A), 3.0, np.float32), np.array([2]), 0), np.zeros(1, np.int64), rows
    )
    plan = executor.schedule(np.array([2]), H + 1, np.ones(1, bool))
    np.testing.assert_array_equal(plan.actions[0, -2:], [[3, 3], [0, 3]])
