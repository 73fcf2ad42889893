"""What an operator does with a workload or a store: check the machine, size, warm, rebuild, compare, merge."""
