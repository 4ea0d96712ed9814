"""The audit finds nothing while the hub is delivering."""

from __future__ import annotations

from tests.processes import traffic
from tests.processes.support import Processes, until
from tests.webhookhub.integrity.support import audit
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.integrity.checks import ALL
from webhookhub.models import Process

# All except those of the schema, which deliveries do not change.
CHECKS = [check.name for check in ALL if check.name not in {"server", "keys", "triggers", "triggers-seen"}]


def test_the_integrity_check_finds_nothing_while_a_hub_is_delivering(processes: Processes, endpoint: HttpsEndpoint):
    traffic.subscribe(endpoint)
    processes.start("run_hub", "--workers", "2", "--routers", "2", "--orchestrators", "2")
    until(lambda: Process.objects.count() == 8, "all eight loops register")
    for _ in range(3):
        traffic.publish(60)
        assert audit(*CHECKS, batch_size=50) == {}

    def clean_until_the_end() -> bool:
        assert audit(*CHECKS, batch_size=50) == {}
        return traffic.all_ended()

    until(clean_until_the_end, "the deliveries end", seconds=120)
    traffic.check_each_ended_once(endpoint)
