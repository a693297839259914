"""The service as its users meet it: requests in, feeds out, over loopback."""
