"""Webhooks of single subscriptions: the service posts what their feeds have, in order, until it is taken.

webhook_table     which there are, how far each has taken its feed, which are set aside and why
webhook_posts     one signed request, to an address that may be posted to
webhook_delivery  a reader of the feed for each webhook; pauses, and giving up
"""
