"""`onFailure` of a v3ioStream trigger: as Kafka's, with another stream for dead letters."""

import re
from typing import Annotated

from pydantic import AfterValidator

from headrace.runtime.config.on_failure import OnFailureSettings
from headrace.runtime.settings.declare import setting
from headrace.runtime.settings.types import Text

_PATH = re.compile(r"/*[^\s/@]+(?:/+[^\s/@]+)*/*")


def _path(text: str) -> str:
    if text and not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is no path of a stream; expected one such as orders-dead-letters")
    return text


class V3ioFailureSettings(OnFailureSettings):
    """`onFailure`."""

    dead_letter_topic: Annotated[Text, AfterValidator(_path)] = setting(
        "deadLetterTopic",
        "",
        effect="The stream, in the same container, that gets failed records when then is deadLetter; while it"
        " can't be written, their shards wait.",
    )
