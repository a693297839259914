"""The service: publish, subscribe and receive over HTTP.

publishing/     what is published, until Spark, Kafka or the live matcher takes it over
client          a service from a program: `outbox` publishes, `followed_feed` receives, `feed_view` keeps a view,
                `service_link` carries their requests, `problem_errors` makes errors of what is refused
"""
