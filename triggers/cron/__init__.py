"""The cron trigger: a moment of a schedule is an event."""
