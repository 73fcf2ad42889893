"""Windows over event time: panes, and the layout of each."""
