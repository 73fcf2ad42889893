"""From workload, budget and statistics to a layout: what is kept for which stream, and which queries read it."""
