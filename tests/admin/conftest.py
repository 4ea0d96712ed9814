"""People at the console: who they are and what they may do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

VIEW = ["view_event", "view_saga", "view_job", "view_deadletter", "view_subscription", "view_process"]


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """Logs a staff member in: staff("anna", "view_event")."""

    def log_in(name: str, *permissions: str) -> Client:
        user = User.objects.create_user(name, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        assert user.user_permissions.count() == len(permissions)
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def viewer(staff: Callable[..., Client]) -> Client:
    return staff("viewer", *VIEW)


@pytest.fixture
def requeuer(staff: Callable[..., Client]) -> Client:
    return staff("requeuer", *VIEW, "requeue_deadletter", "bulk_requeue_deadletter")


@pytest.fixture
def superuser(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client
