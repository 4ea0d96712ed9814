"""The statuses of an attempt."""

PENDING = "Pending"
LEASED = "Leased"
COMPLETED = "Completed"
FAILED = "Failed"

STATUSES = (PENDING, LEASED, COMPLETED, FAILED)
ACTIVE = (PENDING, LEASED)
FINISHED = (COMPLETED, FAILED)

# (from, to): the cause
LEGAL = {
    (PENDING, LEASED): "a worker leases it",
    (LEASED, COMPLETED): "the worker reports success",
    (LEASED, FAILED): "the worker reports failure",
    (LEASED, PENDING): "the cleaner resets an expired lease, or the worker releases it unsent",
}
