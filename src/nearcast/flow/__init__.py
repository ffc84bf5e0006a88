"""Data flows: components that are connected by topics."""
