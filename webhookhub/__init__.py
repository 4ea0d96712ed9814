"""WebhookHub: a webhook delivery hub on MySQL."""

__version__ = "0.2.0"
