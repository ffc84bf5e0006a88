"""From raw logs to plans on Spark: the only home of pyspark.

Every stage is one file with one question: it reads Parquet, writes Parquet, and computes with the
kernels of `delay` and `planning`. Spark distributes, kernels compute.
"""
