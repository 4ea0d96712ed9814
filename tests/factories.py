"""Rows for tests, each the least that is valid."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import factory
from factory.django import DjangoModelFactory

from events.models import Event
from jobs.models import Job
from sagas.models import Saga
from subscriptions.endpoint_models import SETTINGS, Endpoint
from subscriptions.models import Customer, Subscription
from subscriptions.services import DEFAULTS
from tests.support import guards, legal_steps
from webhookhub.db import clock
from webhookhub.ids import new_uid


class CustomerFactory(DjangoModelFactory):
    class Meta:
        model = Customer

    uid = factory.LazyFunction(new_uid)
    customer_key = factory.Sequence(lambda n: f"customer-{n}")


class SubscriptionFactory(DjangoModelFactory):
    class Meta:
        model = Subscription

    event_type = "order.created"
    callback_url = factory.Sequence(lambda n: f"https://127.0.0.1:1025/hook/{n}")
    active = True
    verified = True

    @classmethod
    def _create(cls, model_class: type[Subscription], *args: Any, verified: bool, **kwargs: Any) -> Subscription:
        """Verified after the fact, with a record of it: the database accepts no other way.

        Subscriptions with the same customer, URL and settings share an endpoint, as those that people create.
        """
        subscription = model_class(*args, **kwargs)
        if subscription.endpoint_id is None and (shared := cls._endpoint(verified=verified, **kwargs)) is not None:
            subscription.join(shared)
        subscription.save()
        if verified and not subscription.verified:
            subscription.verified = True
            subscription.verification_at = kwargs.get("verification_at") or clock.now()
            # Past save(), so that a test may give any moment it likes.
            moment = subscription.verification_at
            Subscription.objects.filter(pk=subscription.pk).update(verification_at=None)
            Subscription.objects.filter(pk=subscription.pk).update(verified=True, verification_at=moment)
        return subscription

    @staticmethod
    def _endpoint(**kwargs: Any) -> Endpoint | None:
        given = {name: kwargs[name] for name in SETTINGS if name in kwargs}
        own = Endpoint.objects.existing().filter(customer_key=kwargs.get("customer_key", ""), **given)
        return own.filter(**{name: DEFAULTS[name] for name in DEFAULTS if name not in given}).order_by("id").first()


class EventFactory(DjangoModelFactory):
    class Meta:
        model = Event

    uid = factory.LazyFunction(new_uid)
    event_type = "order.created"
    source = "tests"
    correlation_id = factory.Sequence(lambda n: f"correlation-{n}")
    payload = '{"n":1}'
    created_at = factory.LazyFunction(clock.now)


def least_attempts(status: str, limit: int) -> int:
    return {"Pending": 0, "InProgress": 0, "DeadLettered": limit}.get(status, 1)


class SagaFactory(DjangoModelFactory):
    class Meta:
        model = Saga

    event = factory.SubFactory(EventFactory)
    subscription = factory.SubFactory(SubscriptionFactory)
    endpoint_id = factory.LazyAttribute(lambda saga: saga.subscription.endpoint_id if saga.subscription else None)
    customer_key = factory.LazyAttribute(lambda saga: saga.event.customer_key if saga.event else "")
    status = "Pending"
    attempt_count = factory.LazyAttribute(lambda saga: least_attempts(saga.status, saga.max_retry_limit))
    next_attempt_at = factory.LazyFunction(clock.now)
    max_retry_limit = 3
    base_delay = timedelta(milliseconds=50)
    created_at = factory.LazyFunction(clock.now)
    updated_at = factory.LazyFunction(clock.now)

    @classmethod
    def _create(cls, model_class: type[Saga], *args: Any, **kwargs: Any) -> Saga:
        if not guards.are_on():
            return super()._create(model_class, *args, **kwargs)  # type: ignore[no-any-return]
        status, attempts = kwargs.pop("status"), kwargs.pop("attempt_count")
        saga: Saga = super()._create(model_class, *args, **kwargs)
        legal_steps.advance(saga, status, attempts)
        return saga


class JobFactory(DjangoModelFactory):
    class Meta:
        model = Job

    saga = factory.SubFactory(SagaFactory, status="InProgress")
    attempt_no = 1
    status = "Pending"
    lease_until = factory.LazyFunction(clock.now)
    # The clock may be coarse, and each attempt of a saga has its own time.
    attempt_at = factory.LazyAttribute(lambda job: clock.now() + timedelta(microseconds=job.attempt_no))

    @classmethod
    def _create(cls, model_class: type[Job], *args: Any, **kwargs: Any) -> Job:
        if not guards.are_on():
            return super()._create(model_class, *args, **kwargs)  # type: ignore[no-any-return]
        result = {name: kwargs.pop(name, None) for name in ("status", "finished_at", "error_code", "settled_at")}
        resets = kwargs.pop("lease_resets", 0)
        # A saga that has begun this attempt has its job already.
        job = Job.objects.filter(saga=kwargs["saga"], attempt_no=kwargs["attempt_no"]).first()
        if job is None:
            job = super()._create(model_class, *args, **kwargs)
        else:
            legal_steps.update(job, **{name: value for name, value in kwargs.items() if name != "attempt_at"})
        assert job is not None
        legal_steps.reset(job, resets)
        legal_steps.finish(job, **result)
        return job
