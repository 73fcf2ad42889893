"""Stream samples: the net rows of the followed values; of all values while everything fits.

`spec` defines what an element is, `dictionary` holds elements with their net totals, `state` combines dictionaries
with rosters of the followed values of each link class, `messages` joins dictionaries, `reduction` decides which
keys to keep when over budget.
"""
