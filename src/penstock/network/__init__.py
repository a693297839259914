"""Brokers that route by content: advertisements, subscriptions (covered and merged) and events between machines."""
