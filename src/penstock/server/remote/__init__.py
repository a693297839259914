"""Uses a service from a program: `penstock.Client` and its parts.

client            the class itself: read this first
service_link      carries requests (`back_off`);  `problem_errors`: makes refusals into errors
outbox            publishes, in order and once
followed_feed     receives (`sse_reading`);  `feed_places`: how far a reader has come;  `feed_view`: keeps a `JoinView`
"""
