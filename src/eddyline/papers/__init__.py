"""The documents' own methods, as they give them: references that tests and figures hold ours to.

Nothing that ships imports this package. docs/references.md names the documents.
"""
