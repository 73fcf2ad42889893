"""Where Spark looks for the format "eddyline": it takes `DefaultSource` of every installed module `pyspark_*`.

Nothing else is here, and nobody else needs to import it.
"""

from eddyline.api.answers_source import EddylineAnswers as DefaultSource

__all__ = ["DefaultSource"]
