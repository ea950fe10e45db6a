"""Model quality for Seldon Core 2: its inference responses and feedback in a database, scores by minute."""

from headrace.functions.extras import require_extra

require_extra("functions/model_metrics", "metrics", "sqlalchemy")
