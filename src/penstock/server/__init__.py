"""The service: publish, subscribe and receive over HTTP. Read `service` first, then `app`.

service         everything put together;  settings: what it is to be like;  serving: on the network, until it is stopped
publishing/     what is published, until Spark, Kafka or the live matcher takes it over
spark_side      matching on Spark, in a child process (spark_child);  live_side: in a thread of this one
hub             the newest rows of all feeds in memory, for the connections that wait for them
app             the routes: subscriptions, publishing, feeds, what operators of the service ask
client          a service from a program: `outbox` publishes, `followed_feed` receives, `feed_view` keeps a view,
                `service_link` carries their requests, `problem_errors` makes errors of what is refused
"""
