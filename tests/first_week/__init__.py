"""Mistakes that people make in their first week, and the sentence that each one gets."""
