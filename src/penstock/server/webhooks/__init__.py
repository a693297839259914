"""Webhooks of single subscriptions: the service posts the notifications of their feeds, in order, until they are taken.

webhook_table     all webhooks: how far each has taken its feed, and why it is set aside
webhook_posts     one signed request, to an address that may be posted to
webhook_delivery  reads the feed for each webhook; pauses, and gives up
"""
