"""Questions about single values: how frequent is a key, which keys are heavy, which values does a stream hold."""
