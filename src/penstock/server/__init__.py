"""The service: publish, subscribe and receive over HTTP. Begin with `service`, which puts everything together.

service       opens, starts and ends all parts in order;  `serving`: runs it on the network until it is stopped
settings      the settings of a service, from a YAML file (`setting_parts`, `network_parts`, `setting_values`)
data_folder   the files of a service, and their lock;  `service_db`, `network_db`: two databases in it
publishing/   accepts what is published, and keeps it until Spark, Kafka or the live matcher takes it
sides/        matches what is published: on Spark, or live
hub           serves feeds to open connections: the newest rows from memory, the rest from the store
web/          requests and answers
webhooks/     feeds that are posted to a URL
dashboard/    the page for people
remote/       the client: uses a service from a program
broker_file   the settings of a broker, from a YAML file
"""
