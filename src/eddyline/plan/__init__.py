"""Workload, budget and statistics to a layout: what is kept for which stream, and who reads it."""
