"""How an endpoint's window follows its responses, without a database."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sagas.windows import MAX_WINDOWS, SILENT_SECONDS, SMALLEST, Windows

URL, OTHER = 1, 2


def new(largest: int = 100, breaker_failures: int = 3, longest_pause: float = 8.0) -> Windows:
    return Windows(largest, breaker_failures, longest_pause)


class Endpoint:
    """Opens attempts as the window allows, and finishes them after some seconds."""

    def __init__(self, windows: Windows) -> None:
        self.windows, self.now, self._next = windows, 100.0, 1

    def open(self) -> list[int]:
        ids = list(range(self._next, self._next + self.windows.room(URL, self.now)))
        self._next += len(ids)
        self.windows.note_opened(URL, ids, self.now)
        return ids

    def turn(self, seconds: float) -> int:
        """One round trip; returns how many attempts were open."""
        ids = self.open()
        self.now += seconds
        self.windows.note_finished(ids, self.now)
        return len(ids)


def test_a_new_endpoint_gets_a_small_window():
    windows = new()
    assert windows.room(URL, 0.0) == SMALLEST
    windows.note_opened(URL, [1], 0.0)
    assert windows.room(URL, 0.0) == SMALLEST - 1
    windows.note_opened(URL, [2, 3], 0.0)
    assert windows.room(URL, 0.0) == 0
    assert windows.room(OTHER, 0.0) == SMALLEST


def test_the_window_of_a_quick_endpoint_doubles_with_each_turn_up_to_the_setting():
    endpoint = Endpoint(new(largest=20))
    assert [endpoint.turn(0.01) for _ in range(6)] == [2, 4, 8, 16, 20, 20]


def test_an_endpoint_that_is_slow_but_steady_gets_a_large_window_too():
    endpoint = Endpoint(new(largest=50))
    assert [endpoint.turn(0.8) for _ in range(6)][-1] == 50


def test_the_window_shrinks_when_attempts_wait_and_grows_again():
    endpoint = Endpoint(new(largest=64))
    for _ in range(8):
        endpoint.turn(0.01)
    assert endpoint.turn(0.9) == 64
    assert endpoint.turn(0.9) == 48  # once, although 64 attempts have waited
    assert endpoint.turn(0.01) == 36
    assert [endpoint.turn(0.01) for _ in range(3)] == [64, 64, 64]


def test_the_window_of_a_quick_endpoint_grows_fast_and_stays_large_when_the_hub_is_slow():
    windows = Windows(100, 3, 8.0, connections=20)
    endpoint = Endpoint(windows)
    windows.note_result(URL, endpoint.now, succeeded=True, seconds=0.005)
    assert [endpoint.turn(seconds) for seconds in (0.01, *[0.9] * 5)] == [2, 8, 32, 100, 100, 100]


def test_the_window_of_a_slow_endpoint_is_not_smaller_than_its_connections():
    windows = Windows(100, 3, 8.0, connections=20)
    endpoint = Endpoint(windows)
    for _ in range(8):
        endpoint.turn(0.01)
    windows.note_result(URL, endpoint.now, succeeded=True, seconds=0.5)
    assert [endpoint.turn(0.9) for _ in range(9)][-1] == 20


def test_the_response_time_of_an_endpoint_that_falls_silent_counts_at_once():
    windows = Windows(100, 3, 8.0, connections=20)
    windows.note_result(URL, 0.0, succeeded=True, seconds=0.005)
    windows.note_result(URL, 30.0, succeeded=False, seconds=30.0)
    assert windows.at(URL).busy_size(20, 100) == 0


def test_a_wait_between_the_bounds_changes_nothing():
    endpoint = Endpoint(new())
    for _ in range(4):
        endpoint.turn(0.01)
    assert [endpoint.turn(0.25) for _ in range(3)] == [32, 32, 32]


def test_an_endpoint_that_falls_silent_gets_the_smallest_window():
    endpoint = Endpoint(new())
    for _ in range(6):
        endpoint.turn(0.01)
    assert endpoint.turn(SILENT_SECONDS) == 100
    assert [endpoint.turn(SILENT_SECONDS) for _ in range(2)] == [SMALLEST, SMALLEST]
    assert [endpoint.turn(0.01) for _ in range(3)] == [2, 4, 8]


def test_an_endpoint_that_becomes_slower_for_good_is_not_held_to_its_quickest_time():
    endpoint = Endpoint(new(largest=32))
    for _ in range(10):
        endpoint.turn(0.05)
    turns = [endpoint.turn(0.6) for _ in range(60)]
    assert min(turns) < 32
    assert turns[-1] == 32


def test_unknown_attempts_change_nothing():
    windows = new()
    assert windows.note_finished([1, 2], 5.0) == set()
    windows.note_opened(URL, [1], 0.0)
    assert windows.note_finished([1, 1, 9], 0.1) == {URL}
    assert windows.room(URL, 0.1) == SMALLEST + 1


def test_the_same_attempt_is_opened_once():
    windows = new()
    windows.note_opened(URL, [1], 0.0)
    windows.note_opened(URL, [1], 0.0)
    assert windows.room(URL, 0.0) == SMALLEST - 1


def test_more_is_admitted_when_a_quarter_of_the_window_is_free():
    endpoint = Endpoint(new(largest=100))
    for _ in range(8):
        endpoint.turn(0.01)
    ids = endpoint.open()
    assert not endpoint.windows.has_use_for(URL, endpoint.now)
    endpoint.windows.note_finished(ids[:24], endpoint.now)
    assert not endpoint.windows.has_use_for(URL, endpoint.now)
    endpoint.windows.note_finished(ids[24:25], endpoint.now)
    assert endpoint.windows.has_use_for(URL, endpoint.now)


def test_the_database_corrects_the_numbers_of_open_attempts():
    windows = new()
    windows.note_opened(URL, [1, 2], 0.0)
    windows.set_open({OTHER: 5}, forget_before=-1.0)
    assert windows.room(URL, 0.0) == SMALLEST
    assert windows.room(OTHER, 0.0) == 0
    # The results of attempts that are counted out already change nothing more.
    windows.note_finished([1, 2], 0.1)
    assert windows.at(URL).open == 0


def test_attempts_whose_results_went_elsewhere_are_forgotten():
    windows = new()
    windows.note_opened(URL, [1], 10.0)
    windows.set_open({}, forget_before=9.0)
    assert windows.has_open
    windows.set_open({}, forget_before=11.0)
    assert not windows.has_open


def test_endpoints_without_open_attempts_are_forgotten_when_there_are_very_many():
    windows = new()
    for number in range(MAX_WINDOWS + 1):
        windows.at(number)
    windows.note_result(URL, 0.0, succeeded=False)
    windows.set_open({OTHER: 1}, forget_before=0.0)
    assert len(windows) == 2


def failed(windows: Windows, count: int, now: float = 0.0) -> list[bool]:
    return [windows.note_result(URL, now, succeeded=False) for _ in range(count)]


def test_the_breaker_opens_after_failures_in_a_row():
    windows = new(breaker_failures=3)
    assert failed(windows, 2) == [False, False]
    assert not windows.note_result(URL, 0.0, succeeded=True)
    assert failed(windows, 4) == [False, False, True, False]
    assert windows.room(URL, 0.0) == 0


def test_a_response_within_a_millisecond_has_a_rate():
    windows = new()
    windows.note_result(URL, 0.0, succeeded=True, seconds=0.0)
    assert windows.per_second(URL) == 1000


def test_an_open_breaker_admits_one_probe_at_growing_intervals():
    windows = new(breaker_failures=3, longest_pause=8.0)
    failed(windows, 3, now=100.0)
    at, times = 100.0, []
    for attempt_id in range(6):
        at = windows.probe_at(URL)
        times.append(at)
        assert windows.room(URL, at - 0.01) == 0
        assert windows.room(URL, at) == 1
        windows.note_opened(URL, [attempt_id], at)
        assert windows.room(URL, at + 100) == 0  # one at a time
        windows.note_finished([attempt_id], at + 0.01)
        failed(windows, 1, now=at + 0.01)
    assert [round(after - before) for before, after in pairwise(times)] == [1, 2, 4, 8, 8]


def test_a_successful_probe_closes_the_breaker():
    windows = new(breaker_failures=3)
    failed(windows, 3)
    assert windows.note_result(URL, 5.0, succeeded=True)
    assert (windows.room(URL, 5.0), windows.probe_at(URL)) == (SMALLEST, 0.0)
    assert failed(windows, 2) == [False, False]


@pytest.mark.parametrize("failures", [1, 1000])
def test_the_breaker_can_be_switched_off(failures: int):
    windows = new(breaker_failures=0)
    assert not any(failed(windows, failures))
    assert windows.room(URL, 0.0) == SMALLEST
