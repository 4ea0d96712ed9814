"""`python -m webhookhub.new_key` prints a key for WEBHOOKHUB_ENCRYPTION_KEYS.

No management command: those read the settings first, and the settings refuse to be read without a key.
"""

from __future__ import annotations

import sys

from webhookhub import cipher

if __name__ == "__main__":
    sys.stdout.write(f"{cipher.new_key()}\n")
