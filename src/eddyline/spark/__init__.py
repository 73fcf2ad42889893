"""The only package that imports pyspark: the batch pass, change formats and schemas on frames."""
