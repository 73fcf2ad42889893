"""Output of a plan: as text, as a picture, and the errors that are expected."""
