"""eddyline."""
