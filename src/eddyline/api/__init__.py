"""The public API: workload, plan and state, thin layers over the packages below."""
