"""Distinct counts and set expressions, from followed values or from distinct sketches.

`query` chooses the reading. From the sample: `sampled`. From sketches: `streams` makes them ready, `condition` holds
the expression, `expression` chooses between `likelihood` (all cells of all levels together) and `difference` (nearly
equal streams); `reading` is what they return.
"""
