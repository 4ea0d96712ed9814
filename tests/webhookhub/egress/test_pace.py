"""How much of a worker a receiver may take up."""

from __future__ import annotations

from webhookhub.egress.messages import Answer
from webhookhub.egress.pace import FEW, MOST_REMEMBERED, Pace

QUICK = Answer(None, 20, 200)
SLOW = Answer(None, 20_000, 200)
REFUSED = Answer("connect_error", 5)
SILENT = Answer("timeout", 30_000)


def test_a_receiver_that_is_not_known_yet_gets_few_requests_and_others_may_wait_for_them():
    pace = Pace(20)
    assert (pace.limit("a"), pace.may_queue("a")) == (FEW, True)


def test_a_quick_one_gets_its_whole_share_whatever_it_answers():
    pace = Pace(20)
    for answer in (QUICK, REFUSED):
        pace.note("a", answer)
        assert (pace.limit("a"), pace.may_queue("a")) == (20, True)


def test_nothing_waits_for_a_slow_one_beyond_its_share():
    pace = Pace(20)
    pace.note("a", SLOW)
    assert (pace.limit("a"), pace.may_queue("a")) == (20, False)


def test_one_that_never_answers_gets_few_until_it_answers_again():
    pace = Pace(20)
    pace.note("a", QUICK)
    pace.note("a", SILENT)
    assert (pace.limit("a"), pace.may_queue("a")) == (FEW, False)
    pace.note("a", QUICK)
    assert (pace.limit("a"), pace.may_queue("a")) == (20, True)


def test_nothing_waits_for_one_that_has_stopped_answering_until_it_answers_again():
    pace = Pace(20)
    pace.note("known", QUICK)
    for origin, limit in (("known", 20), ("unknown", FEW)):
        pace.note_wait(origin)
        assert (pace.limit(origin), pace.may_queue(origin)) == (limit, False)
        pace.note(origin, QUICK)
        assert (pace.limit(origin), pace.may_queue(origin)) == (20, True)


def test_the_share_is_never_exceeded():
    assert Pace(1).limit("a") == 1


def test_the_memory_of_receivers_is_bounded():
    pace = Pace(20)
    for number in range(MOST_REMEMBERED + 5):
        pace.note(str(number), SLOW)
    assert pace.may_queue("0")
    assert not pace.may_queue(str(MOST_REMEMBERED))
