"""Rows into counters: what each stream's rows are projected to, and the one pass that feeds all synopses."""
