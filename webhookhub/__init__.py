"""WebhookHub: a webhook delivery hub on MySQL."""

__version__ = "0.1.0"
