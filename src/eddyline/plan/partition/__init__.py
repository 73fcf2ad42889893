"""Sketch partitioning: values of a join link that share a sketch, chosen by histograms of the keys."""
