"""The states of one attempt."""

PENDING = "Pending"
LEASED = "Leased"
COMPLETED = "Completed"
FAILED = "Failed"

STATUSES = (PENDING, LEASED, COMPLETED, FAILED)
ACTIVE = (PENDING, LEASED)
FINISHED = (COMPLETED, FAILED)

# from → to: who does it
LEGAL = {
    (PENDING, LEASED): "a worker takes it",
    (LEASED, COMPLETED): "the worker reports success",
    (LEASED, FAILED): "the worker reports failure",
    (LEASED, PENDING): "the cleaner resets an expired lease, or the worker gives it back unsent",
}
