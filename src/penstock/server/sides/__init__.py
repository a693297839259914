"""The two sides that can match what is published: Spark in a child process, and a live matcher in a thread.

matching_state      the state and the figures that both report
spark_side          Spark's side in the service, and its child process (`supervising`)
spark_child         that process: it runs the pipelines of `published_pipelines`
live_side           the live matcher
changing_over       changes from one side to the other, at a restart
network_side        the service as a client of a broker: events and filters go into the network, events come from it
published_segments  deletes segments that Spark has read (`read_segments`);  `kafka_topics`: topics as the log
"""
