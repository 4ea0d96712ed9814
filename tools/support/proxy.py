"""A proxy to the database that can be cut or frozen."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any


class Proxy:
    """Listens while entered; `cut` closes every connection and refuses new ones, `freeze` lets no byte pass."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._flowing = threading.Event()
        self._flowing.set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closing = False
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])

    def __enter__(self) -> Proxy:
        self.mend()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._closing = True
        self._flowing.set()
        self.cut()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        # shutdown() wakes the thread that accepts; close() alone would not
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):  # the other side has just closed it
                    end.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def turn_to(self, host: str, port: int) -> None:
        """Forwards new connections to another address."""
        self._target = host, port

    def freeze(self) -> None:
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()  # the target does not listen
                continue
            with self._lock:
                self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open -= {source, sink}
            for end in (source, sink):
                # shutdown() first: close() alone does not wake the other thread's recv().
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
