"""A plan shown: as text, as a picture, and the errors that are expected of it."""
