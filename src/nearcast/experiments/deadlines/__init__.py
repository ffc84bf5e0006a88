"""Deadlines of message classes on live servers: under saturation, and over emulated distances."""
