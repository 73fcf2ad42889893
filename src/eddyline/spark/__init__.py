"""The only home of pyspark: the batch pass, change formats and schemas on frames."""
