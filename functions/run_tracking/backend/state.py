"""State that the handlers of requests share."""

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from headrace.functions.run_tracking.backend.changes import ChangePublisher, Changes
from headrace.functions.run_tracking.blobs.store import BlobStore
from headrace.functions.run_tracking.settings import Settings
from headrace.functions.run_tracking.store.curves import CurveReader
from headrace.functions.run_tracking.store.readers import NameReader, RunReader


class BackendState:
    """Readers, writers, publisher and blob store of one worker, made once by `prepare`."""

    def __init__(self, context: Any, settings: Settings, engine: sa.Engine, blobs: BlobStore) -> None:
        self.logger = context.logger
        self.summaries = Path(settings.summaries)
        self.blobs = blobs
        # One engine for all four, so they share one pool of connections.
        self.reader = RunReader(engine)
        self.names = NameReader(engine)
        self.curves = CurveReader(engine)
        self.changes = Changes(engine)
        self.publisher = ChangePublisher(context, settings)
