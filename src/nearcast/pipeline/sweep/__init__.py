"""Sweeps: methods x parameters x seeds as one resumable Spark job."""
