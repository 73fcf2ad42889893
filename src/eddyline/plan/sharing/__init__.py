"""Which queries of a workload share a sketch, and how many words each sketch gets."""
