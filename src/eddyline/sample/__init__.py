"""Stream samples: the net rows of the values that are followed; all of them while everything fits.

`spec` says what an element is, `dictionary` holds elements with their net totals, `roster` says which values of
a link class are followed, `following` puts both together, `messages` joins dictionaries, `reduction` decides
whom to follow when memory runs out.
"""
