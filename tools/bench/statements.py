"""Counts the statements that a server has executed, from the server's own status."""

from __future__ import annotations

from dataclasses import dataclass

from tools.bench.database import Server

PREFIX = "Com_"
STATUS = "SHOW GLOBAL STATUS WHERE Variable_name = 'Questions' OR Variable_name LIKE 'Com\\_%'"


@dataclass(frozen=True)
class Statements:
    """`total`: statements that clients sent. `kinds`: by command, including the statements of triggers."""

    total: float
    kinds: dict[str, float]

    def __sub__(self, other: Statements) -> Statements:
        names = sorted({*self.kinds, *other.kinds})
        kinds = {name: self.kinds.get(name, 0) - other.kinds.get(name, 0) for name in names}
        return Statements(self.total - other.total, {name: count for name, count in kinds.items() if count})

    def __add__(self, other: Statements) -> Statements:
        return self - other * -1

    def __mul__(self, factor: float) -> Statements:
        return Statements(self.total * factor, {name: count * factor for name, count in self.kinds.items()})

    def __str__(self) -> str:
        """The kinds, the most frequent first."""
        ordered = sorted(self.kinds.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{name} {count:.3g}" for name, count in ordered if count > 0)


class StatementCounter:
    """Statements of all clients since its creation, except for its own."""

    def __init__(self, database: Server) -> None:
        self._database = database
        self._before = self._read()
        self._own = 0

    def count(self) -> Statements:
        """Each call counts from the creation on."""
        self._own += 1
        now = self._read()
        return now - self._before - Statements(self._own, {"show_status": self._own})

    def _read(self) -> Statements:
        """The server counts this statement before it reads the status."""
        status = {name: int(value) for name, value in self._database.execute(STATUS)}
        kinds = {name.removeprefix(PREFIX).lower(): count for name, count in status.items() if name != "Questions"}
        return Statements(status["Questions"], {name: count for name, count in kinds.items() if count})
