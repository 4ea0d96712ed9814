"""The sample definitions are the workflows of ADR-025, which are written out here by hand."""

from __future__ import annotations

import pytest

from workflows.registry import SAMPLES, load

# Workflow → its steps, each after the one before.
STEPS = {
    "order_submission": [
        "Create order",
        "Reserve inventory",
        "Process payment",
        "Arrange shipping",
        "Confirm order",
    ],
    "order_cancellation": ["Cancel order", "Refund payment", "Release inventory", "Notify customer"],
    "customer_registration": ["Create customer", "Send email", "Create loyalty account", "Send welcome gift"],
}
# Workflow → the events that undo its steps, the last step first.
COMPENSATION = {
    "order_submission": ["shipping.cancelled", "payment.reversed", "inventory.released", "order.failed"],
    "order_cancellation": ["refund.reversed", "order.restored"],
    "customer_registration": ["loyalty.account_deleted", "customer.deleted"],
}


@pytest.mark.requirement("R5-1i", "R5-1j", "R5-1k", "R5-3.1d", "R5-10h", "R5-10i", "R5-10j")
@pytest.mark.parametrize("name", STEPS)
def test_a_sample_workflow_has_the_steps_of_the_adr(name: str):
    steps = load((SAMPLES,)).latest[name].in_order

    assert [step.title for step in steps] == STEPS[name]
    assert [list(step.after) for step in steps] == [[], *([step.key] for step in steps[:-1])]


@pytest.mark.requirement("R5-3.1e", "R5-10h", "R5-10i", "R5-10j")
@pytest.mark.parametrize("name", COMPENSATION)
def test_a_sample_workflow_has_the_compensation_of_the_adr(name: str):
    steps = load((SAMPLES,)).latest[name].in_order

    assert [event for step in reversed(steps) for event in step.compensated] == COMPENSATION[name]
