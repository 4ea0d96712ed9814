"""How much of a worker a receiver may take up."""

from __future__ import annotations

import pytest

from webhookhub.egress import hosts as receivers_module
from webhookhub.egress.hosts import FEW, LONGEST_WAIT_SECONDS, SHORTEST_WAIT_SECONDS, Receiver, Receivers
from webhookhub.egress.messages import Response

QUICK = Response(None, 20, 200)
SLOW = Response(None, 20_000, 200)
REFUSED = Response("connect_error", 5)
SILENT = Response("timeout", 30_000)


@pytest.fixture
def receiver() -> Receiver[int]:
    return Receivers[int](20).at("https://hooks.example.com/a")


def share(receiver: Receiver[int]) -> tuple[int, bool]:
    return receiver.limit, receiver.may_queue


def test_a_receiver_that_is_not_known_yet_gets_few_requests_and_others_may_wait_for_them(receiver: Receiver[int]):
    assert share(receiver) == (FEW, True)


def test_a_quick_one_gets_its_whole_share_whatever_it_answers(receiver: Receiver[int]):
    for answer in (QUICK, REFUSED):
        receiver.note(answer)
        assert share(receiver) == (20, True)


def test_nothing_waits_for_a_slow_one_beyond_its_share(receiver: Receiver[int]):
    receiver.note(SLOW)
    assert share(receiver) == (20, False)


def test_one_that_never_answers_gets_few_until_it_answers_again(receiver: Receiver[int]):
    receiver.note(QUICK)
    receiver.note(SILENT)
    assert share(receiver) == (FEW, False)
    receiver.note(QUICK)
    assert share(receiver) == (20, True)


@pytest.mark.parametrize(("known", "limit"), [(True, 20), (False, FEW)])
def test_nothing_waits_for_one_that_has_stopped_answering_until_it_answers_again(
    receiver: Receiver[int], known: bool, limit: int
):
    if known:
        receiver.note(QUICK)
    receiver.note_wait()
    assert share(receiver) == (limit, False)
    receiver.note(QUICK)
    assert share(receiver) == (20, True)


def test_the_share_is_never_exceeded():
    assert Receivers[int](1).at("https://hooks.example.com/").limit == 1


def test_those_turned_away_come_back_one_after_the_other_and_within_bounds(receiver: Receiver[int]):
    receiver.note(SILENT)

    waits = [receiver.wait_seconds() for _ in range(1000)]

    assert waits[0] == pytest.approx(SHORTEST_WAIT_SECONDS)
    assert waits[1] == pytest.approx(SHORTEST_WAIT_SECONDS + 30 / FEW, abs=0.5)
    assert max(waits) <= LONGEST_WAIT_SECONDS
    assert waits[-1] == pytest.approx(LONGEST_WAIT_SECONDS)


def test_one_that_is_quick_again_lets_those_turned_away_come_back_soon(receiver: Receiver[int]):
    receiver.note(SILENT)
    for _ in range(100):
        receiver.wait_seconds()

    receiver.note(QUICK)

    assert receiver.wait_seconds() == pytest.approx(SHORTEST_WAIT_SECONDS)


def test_a_receiver_is_a_host_and_a_port():
    receivers = Receivers[int](20)

    same = [receivers.at(url) for url in ("https://a.example/x", "https://a.example/y", "https://a.example/x?z")]

    assert len({id(each) for each in same}) == 1
    assert (same[0].host, same[0].port, same[0].is_address) == ("a.example", 443, False)
    other = receivers.at("https://a.example:8443/x")
    assert other is not same[0]
    assert other.port == 8443
    assert receivers.at("https://192.0.2.1/").is_address
    assert receivers.at("https://[2001:db8::1]:8443/").host == "2001:db8::1"


def test_what_cannot_be_read_as_an_address_is_left_to_libcurl():
    for url in ("https://a.example:port/", "https://[::1/", "https:///", ""):
        assert Receivers[int](20).at(url).is_address
        assert Receivers[int](20).at(url).refusal == "invalid_request"


def test_the_memory_of_receivers_is_bounded_and_keeps_those_in_use(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(receivers_module, "MOST_REMEMBERED", 10)
    receivers = Receivers[int](20)
    busy = receivers.at("https://busy.example/")
    busy.under_way = 1
    first = receivers.at("https://first.example/")
    for number in range(15):
        receivers.at(f"https://{number}.example/").note(SLOW)

    assert receivers.at("https://busy.example/") is busy
    assert receivers.at("https://first.example/") is not first
    assert not receivers.at("https://14.example/").may_queue
