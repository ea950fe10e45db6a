"""The API and the page: requests in, answers out. Reads the database, and writes what people change by hand.

Each change that others have to learn of is published first, then written.
"""

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
    """Wait for a database that is away. Raises ValueError for an address that is none."""
    from headrace.functions.run_tracking.blobs.open import open_store

    engine = open_engine(settings.database)
    retry_write(lambda: migrate(engine, MIGRATIONS), context.logger)
    context.user_data.site = BackendState(context, settings, engine, open_store(settings))


def handle(context: Any, event: Any) -> Any:
    """The response to one request."""
    try:
        found = answer(context.user_data.site, event)
    except RequestError as error:
        found = error_response(error)
    except RecursionError:  # of a run from before there was a bound
        found = error_response(RequestError(500, "what is stored is nested too deep to be said"))
    except TooManyPointsError as error:
        found = error_response(RequestError(400, str(error)))
    except TooLongError as error:
        context.logger.warn_with("a request takes too long to answer: it gets 503", path=event.path[:200])
        found = error_response(RequestError(503, str(error)))
    except sa.exc.SQLAlchemyError as error:
        context.logger.warn_with("the database is away: a request gets 503", error=error_text(error))
        found = json_response({"error": "the database is away"}, 503)
    return context.Response(
        body=found.body,
        headers=dict(found.headers),
        content_type=found.content_type,
        status_code=found.status,
    )
