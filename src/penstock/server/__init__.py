"""The service: publish, subscribe and receive over HTTP.

Begin with `service`, which puts everything together, and `app`, which is its web side. What a request meets, in order:

- `web_protocol`, `request_log`: limits of a connection; ids, logs, headers, errors (`problems`: as RFC 9457 has them);
- `callers`, `api_keys`, `rates`: who calls, what they may do, how often;
- `operations`, `web_calls`: the table that routes and OpenAPI (`openapi`) are made of; what a handler is given;
- `subscription_routes` (`subscribing`, `idempotency`), `publish_routes`, `feed_routes`, `explain_routes`,
  `operating_routes`; `api_types`: what callers send and are sent.

And behind them:

- `publishing/`: what is published, until Spark, Kafka or the live matcher takes it over;
- `hub`: feeds as open connections read them, the newest rows in memory, the rest from the store; `feed_readers`,
  `feed_offsets`, `event_streams`, `live_reads`: reading them over HTTP;
- `matching_state`: how matching stands; `spark_side` and `live_side` do it;
- `settings`, `http_settings`: what a service may be told; `serving`: it on the network.
"""
