"""Stocks and reviews, live: select-join subscriptions over two changing tables."""
