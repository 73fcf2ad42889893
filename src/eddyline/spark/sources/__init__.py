"""Sources: one module for each system whose rows Spark reads."""
