"""Frames that are yet to come: streams of files of which none is there."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from eddyline.errors import PipelineError


class NoFileYet(PipelineError):  # noqa: N818 - it says what is so
    """A source of files has none, or its folder is missing."""


@dataclass(frozen=True)
class AwaitedFrame:
    """A streaming frame that can be read once its first file is there; `read` raises NoFileYet until then."""

    read: Callable[[], DataFrame]
    path: str
    isStreaming: bool = True  # noqa: N815 - Spark's word, by which frames are told apart

    def __str__(self) -> str:
        return f"has no file yet at {self.path}"
