"""Labels: short texts about an event that subscriptions can filter by, without looking into the payload."""

from __future__ import annotations

import re

MAX_LABELS = 16
LABEL_NAME = re.compile(r"[a-z0-9_.-]{1,64}\Z")
LABEL_NAME_RULE = "a label's name must be 1 to 64 lower-case letters, digits, dots, dashes and underscores"
VALUE_LENGTH = 256
