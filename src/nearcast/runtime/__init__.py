"""The running system. ``processor_process`` keeps a user's processor in a process of its own."""
