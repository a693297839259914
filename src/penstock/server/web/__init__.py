"""The service's web side. Begin with `app`. What a request meets, in order:

- `web_protocol`, `request_log`: limits of a connection; ids, logs, headers, errors (`problems`, RFC 9457);
- `callers`, `api_keys`, `rates`: who calls, what they may do, how often;
- `operations`, `web_calls`: the table that routes and OpenAPI (`openapi`) are made of; what a handler is given;
- `subscription_routes` (`subscribing`, `idempotency`), `listing_routes`, `webhook_routes`, `publish_routes`,
  `feed_routes`, `explain_routes`, `operating_routes`; `api_types`: types of requests and answers;
- `feed_readers`, `feed_offsets`, `event_streams`, `live_reads`: reading feeds over HTTP.
"""
