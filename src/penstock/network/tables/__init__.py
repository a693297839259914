"""Select-joins over a network of brokers, which know nothing of joins: all of it is events, filters, advertisements.

table_events       what a publisher of tables and those who follow selects say to each other, as events
published_tables   the publisher: changes of tables and asks in, events out;  table_publisher: it runs at a broker
followed_select    a subscriber: events in, a `JoinView` and asks out;  select_follower: it runs at a broker
"""
