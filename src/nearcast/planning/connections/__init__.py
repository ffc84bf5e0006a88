"""Planning under M1, the connection-limited model: a search and a lower bound."""
