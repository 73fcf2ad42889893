"""Distinct counts and set expressions, from followed values or from distinct sketches.

`query` chooses the reading, and reads the sample. From sketches: `expression` holds the expression, prepares its
streams, and chooses between `likelihood` (all cells of all levels together) and the difference of the sketches
(nearly equal streams). `document` has the estimators of the document.
"""
