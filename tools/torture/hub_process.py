"""All steps in one process, as run_hub starts it; the torture is its supervisor."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from webhookhub.conf import KINDS
from webhookhub.management.commands.run_hub import loop_command, run_steps


def main(arguments: Sequence[str]) -> None:
    sys.exit(run_steps([loop_command(kind) for kind in KINDS]))
