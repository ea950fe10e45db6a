"""Long tasks: protobuf requests, each answered once its task, of milliseconds or hours, is done."""

from headrace.functions.extras import require_extra

require_extra("functions/long_tasks", "tasks", "google.protobuf")
