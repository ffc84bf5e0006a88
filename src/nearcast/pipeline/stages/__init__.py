"""The stages of the pipeline: each one question, one file, one schema in and one out."""
