"""The map from customers to cells."""

from __future__ import annotations

import pytest

from webhookhub.client import Cells, Client
from webhookhub.client.cells import BUCKETS, bucket_of

HALF = BUCKETS // 2


def clients() -> dict[str, Client]:
    return {name: Client(f"https://{name}.example.com", "whk_key") for name in ("north", "south")}


def test_a_bucket_depends_on_the_customer_only():
    # Fixed: another number would send customers to another cell.
    assert [bucket_of(customer) for customer in ("acme", "globex", "公司", "")] == [941, 141, 343, 66]
    assert len({bucket_of(f"customer-{number}") for number in range(20 * BUCKETS)}) == BUCKETS


def test_a_customer_belongs_to_the_cell_of_its_bucket():
    own = clients()
    with Cells(own, {"north": range(HALF), "south": range(HALF, BUCKETS)}) as cells:
        for number in range(100):
            cell = "north" if bucket_of(f"c-{number}") < HALF else "south"
            assert cells.cell_of(f"c-{number}") == cell
            assert cells.client_of(f"c-{number}") is own[cell]


@pytest.mark.parametrize(
    ("buckets", "message"),
    [
        ({"north": range(HALF)}, "512 buckets belong to no cell, such as 512, 513, 514, 515, 516"),
        ({"north": range(BUCKETS), "south": [7]}, "bucket 7 belongs to north and to south"),
        ({"north": range(BUCKETS + 1)}, "buckets of north: 1024 is not a number from 0 to 1023"),
        ({"east": range(BUCKETS)}, "buckets has cells without a client: east"),
    ],
)
def test_a_map_that_is_not_complete_is_refused(buckets: dict[str, range], message: str):
    with pytest.raises(ValueError, match=message):
        Cells(clients(), buckets)
