"""Plain pycurl: sends a batch of requests and checks their responses, without signatures, address checks or limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pycurl

CONCURRENCY = 100
# Requests are not signed, but as long as signed ones.
SIGNATURE = "webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="
Request = tuple[str, Sequence[str], bytes]  # URL, headers, body


def headers(message_id: str) -> list[str]:
    return ["Content-Type: application/json", f"webhook-id: {message_id}", SIGNATURE]


def delivery_request(job: Sequence[Any]) -> Request:
    """For a row that starts with the job's id, uid, type, time and payload of the event, and the URL."""
    _, uid, event_type, created_at, payload, url, *_ = job
    return url, headers(uid), f'{{"type":"{event_type}","timestamp":"{created_at}","data":{payload}}}'.encode()


def new_handle(authority: str) -> Any:
    curl = pycurl.Curl()
    for option, value in [
        (pycurl.POST, 1),
        (pycurl.CAINFO, authority),
        (pycurl.NOSIGNAL, 1),
        (pycurl.WRITEFUNCTION, lambda chunk: None),
    ]:
        curl.setopt(option, value)
    return curl


def prepare(curl: Any, request: Request) -> None:
    url, headers, body = request
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.HTTPHEADER, ["Expect:", *headers])
    curl.setopt(pycurl.POSTFIELDS, body)


class PycurlClient:
    def __init__(self, authority: str) -> None:
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, CONCURRENCY)
        self._idle: list[Any] = []
        self._idle += [new_handle(authority) for _ in range(CONCURRENCY)]

    def send(self, requests: Sequence[Request]) -> None:
        """POSTs each (URL, headers, body) and asserts that all responses are 200."""
        waiting, done = list(reversed(requests)), 0
        while done < len(requests):
            while waiting and self._idle:
                curl = self._idle.pop()
                prepare(curl, waiting.pop())
                self._multi.add_handle(curl)
            self._multi.perform()
            done += self._collect()
            if done < len(requests) and not (waiting and self._idle):
                self._multi.select(1.0)

    def close(self) -> None:
        for curl in self._idle:
            curl.close()
        self._multi.close()

    def _collect(self) -> int:
        done = 0
        while True:
            queued, succeeded, failed = self._multi.info_read()
            assert not failed, failed
            for curl in succeeded:
                assert curl.getinfo(pycurl.RESPONSE_CODE) == 200
                self._multi.remove_handle(curl)
                self._idle.append(curl)
            done += len(succeeded)
            if not queued:
                return done
