"""Servers, clients, topics, members and plans: the data, its files and the rules it keeps."""
