"""What a fuzzer of workloads finds."""


class FaultError(AssertionError):
    """A workload that crashed, or an answer that was said to be exact and was not."""
