"""A hub on several hosts whose network, servers and processes fail: what is lost, what is late, what comes twice."""
