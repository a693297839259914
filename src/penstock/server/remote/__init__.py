"""A service from a program: `penstock.Client`, and what it is made of.

client            all of it
service_link      carries requests (`back_off`);  `problem_errors`: what was refused, as errors
outbox            publishes, in order and once
followed_feed     receives (`sse_reading`);  `feed_places`: how far a reader has come;  `feed_view`: keeps a `JoinView`
"""
