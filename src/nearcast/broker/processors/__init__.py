"""The processors that are shipped; each also shows how to write one. Read ``forward`` first."""
