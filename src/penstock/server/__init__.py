"""The service: publish, subscribe and receive over HTTP. Begin with `service`, which puts everything together.

service       its parts, opened, started and ended in order;  `serving`: it on the network, until it is stopped
settings      what it is to be like, from a YAML file (`setting_parts`)
publishing/   what is published, until Spark, Kafka or the live matcher takes it over
sides/        matching: on Spark, or live
hub           feeds as open connections read them: the newest rows in memory, the rest from the store
web/          requests and answers
webhooks/     feeds that are posted to a URL
dashboard/    the page for people
remote/       the other end: a service from a program
"""
