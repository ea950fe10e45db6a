"""The backend: handles requests of the `backend` trigger. Reads the database and writes people's edits."""

from typing import Any

import sqlalchemy as sa

from headrace.functions.database.engine import TooLongError, open_engine
from headrace.functions.database.retry import error_text, retry_write
from headrace.functions.database.schema import migrate
from headrace.functions.run_tracking.backend.responses import RequestError, error_response, json_response
from headrace.functions.run_tracking.backend.routes import answer
from headrace.functions.run_tracking.backend.state import BackendState
from headrace.functions.run_tracking.settings import Settings
from headrace.functions.run_tracking.store.curves import TooManyPointsError
from headrace.functions.run_tracking.store.tables import MIGRATIONS


def prepare(context: Any, settings: Settings) -> None:
    """Migrate the database, which may take until it can be reached, and open the blob store.

    Raises ValueError for an invalid address, SettingsError, BlobError.
    """
    from headrace.functions.run_tracking.blobs.open import open_store

    engine = open_engine(settings.database)
    retry_write(lambda: migrate(engine, MIGRATIONS), context.logger)
    context.user_data.state = BackendState(context, settings, engine, open_store(settings))


def handle(context: Any, event: Any) -> Any:
    """Return the response to one request; a failure becomes a status and one line."""
    try:
        found = answer(context.user_data.state, event)
    except RequestError as error:
        found = error_response(error)
    except RecursionError:  # a run that was stored before nesting was limited
        found = error_response(RequestError(500, "what is stored is nested too deep to be said"))
    except TooManyPointsError as error:
        found = error_response(RequestError(400, str(error)))
    except TooLongError as error:
        context.logger.warn_with("a request takes too long to answer: it gets 503", path=event.path[:200])
        found = error_response(RequestError(503, str(error)))
    # Not retried: a worker handles one request at a time, so all others would wait behind this one.
    except sa.exc.SQLAlchemyError as error:
        context.logger.warn_with("the database is away: a request gets 503", error=error_text(error))
        found = json_response({"error": "the database is away"}, 503)
    return context.Response(
        body=found.body,
        headers=dict(found.headers),
        content_type=found.content_type,
        status_code=found.status,
    )
