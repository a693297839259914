"""The service: publish, subscribe and receive over HTTP.

hub     feeds as open connections read them: the newest rows in memory, the rest from the store
"""
