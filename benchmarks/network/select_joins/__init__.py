"""Select-joins over a network: the experiments of joins §6.1 to §6.3 and §J.

topology      an Internet of 20,000 nodes, 1,000 of them an overlay, and a tree from the server to all of them
zones         the space of subscriptions in zones of equal load: which node has which subscriptions
can           the same zones as a content-addressable network, the second kind of CN
flows         from who reads a message to the links that it crosses, in either network
trial         one scheme on one workload
star_network  the same through nodes of CN*: directory, repository, asking back
experiments   what is varied, and the tables
benchmark     `python -m benchmarks network -x joins-…`
"""
