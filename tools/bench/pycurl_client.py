"""Plain pycurl: sends a batch of requests and checks their responses, without signatures, address checks or limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pycurl

CONCURRENCY = 100


class PycurlClient:
    def __init__(self, authority: str) -> None:
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, CONCURRENCY)
        self._idle: list[Any] = []
        for _ in range(CONCURRENCY):
            curl = pycurl.Curl()
            for option, value in [
                (pycurl.POST, 1),
                (pycurl.CAINFO, authority),
                (pycurl.NOSIGNAL, 1),
                (pycurl.WRITEFUNCTION, lambda chunk: None),
            ]:
                curl.setopt(option, value)
            self._idle.append(curl)

    def send(self, requests: Sequence[tuple[str, Sequence[str], bytes]]) -> None:
        """POSTs each (URL, headers, body) and asserts that all responses are 200."""
        waiting, done = list(reversed(requests)), 0
        while done < len(requests):
            while waiting and self._idle:
                url, headers, body = waiting.pop()
                curl = self._idle.pop()
                curl.setopt(pycurl.URL, url)
                curl.setopt(pycurl.HTTPHEADER, ["Expect:", *headers])
                curl.setopt(pycurl.POSTFIELDS, body)
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
