"""An OAuth2 token server on loopback: it gives out numbered tokens and stores the requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tools.demo.endpoint import HttpsEndpoint, Received, Reply


class TokenServer(HttpsEndpoint):
    """`reply` replaces its responses; `values` are added to the JSON document."""

    def __init__(self, certificate: Path) -> None:
        super().__init__(certificate, self._answer)
        self.reply: Reply | None = None
        self.values: dict[str, Any] = {"expires_in": 3600}

    def __enter__(self) -> TokenServer:
        super().__enter__()
        return self

    @property
    def forms(self) -> list[dict[str, str]]:
        return [{name: " ".join(values) for name, values in parse_qs(r.body.decode()).items()} for r in self.received]

    def _answer(self, request: Received) -> Reply:
        if self.reply is not None:
            return self.reply
        document = {"access_token": f"token-number-{len(self.received)}", "token_type": "Bearer", **self.values}
        return Reply(body=json.dumps(document).encode())
