"""All that requests are answered with."""

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.backend.changes import Changes
from headrace.functions.run_tracking.backend.publishing import Publisher
from headrace.functions.run_tracking.blobs.store import BlobStore
from headrace.functions.run_tracking.settings import Settings
from headrace.functions.run_tracking.store.curves import Curves
from headrace.functions.run_tracking.store.names import Names
from headrace.functions.run_tracking.store.reader import Reader


class Site:
    """Of one worker."""

    def __init__(self, context: Any, settings: Settings, engine: sa.Engine, blobs: BlobStore) -> None:
        self.logger = context.logger
        self.summaries = Path(settings.summaries)
        self.blobs = blobs
        self.reader = Reader(engine)
        self.names = Names(engine)
        self.curves = Curves(engine)
        self.changes = Changes(engine)
        self.publisher = Publisher(context, settings)
