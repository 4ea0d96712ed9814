"""A TLS endpoint on loopback that supports only HTTP/2 and calls a function for each request."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.exceptions import ProtocolError

from tools.support.raw_endpoint import RawEndpoint


@dataclass
class Stream:
    """One request and its connection."""

    connection: H2Connection
    socket: ssl.SSLSocket
    id: int
    headers: dict[str, str]
    body: bytes = b""
    endless: bool = False

    def respond(self, status: int, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()) -> None:
        self.connection.send_headers(self.id, [(":status", str(status)), *headers], end_stream=not body)
        if body:
            self.connection.send_data(self.id, body, end_stream=True)
        self.flush()

    def pour(self) -> None:
        """Sends an endless body, as fast as the client reads."""
        if not self.endless:
            self.endless = True
            self.connection.send_headers(self.id, [(":status", "200")])
        while (room := self.connection.local_flow_control_window(self.id)) > 0:
            self.connection.send_data(self.id, b"x" * min(room, 16_384))
            self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.connection.data_to_send())


class Http2Endpoint(RawEndpoint):
    """Stores the requests and calls `respond` for each."""

    def __init__(self, certificate: Path, respond: Callable[[Stream], None]) -> None:
        super().__init__(certificate, self._speak)
        self.context.set_alpn_protocols(["h2"])
        self.respond = respond
        self.received: list[Stream] = []

    def __enter__(self) -> Http2Endpoint:
        super().__enter__()
        return self

    def _speak(self, socket: ssl.SSLSocket) -> None:
        if socket.selected_alpn_protocol() != "h2":
            return
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        socket.sendall(connection.data_to_send())
        with contextlib.suppress(ProtocolError):  # some tests break the protocol
            self._serve_streams(socket, connection)

    def _serve_streams(self, socket: ssl.SSLSocket, connection: H2Connection) -> None:
        streams: dict[int, Stream] = {}
        while data := socket.recv(65536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers}
                    streams[event.stream_id] = Stream(connection, socket, event.stream_id, headers)
                elif isinstance(event, DataReceived):
                    streams[event.stream_id].body += event.data
                    connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, StreamEnded):
                    stream = streams[event.stream_id]
                    self.received.append(stream)
                    self.respond(stream)
                elif isinstance(event, StreamReset):
                    streams.pop(event.stream_id, None)
                elif isinstance(event, WindowUpdated):
                    for stream in streams.values():
                        if stream.endless:
                            stream.pour()
            socket.sendall(connection.data_to_send())
