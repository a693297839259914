"""The service: publish, subscribe and receive over HTTP.

publishing/     what is published, until Spark, Kafka or the live matcher takes it over
"""
