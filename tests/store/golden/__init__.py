"""Golden files: a store and a state as a version of the format wrote them, for all later versions to read.

    python -m tests.store.golden.make tests/store/golden/format-3

writes them. A format is frozen once a release has it: files are added for new formats, never rewritten.
"""
