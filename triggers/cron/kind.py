"""The declaration of the kind cron: what function.yaml may say of such a trigger."""

from headrace.runtime.config.trigger_kinds import TriggerKind
from headrace.triggers.cron.settings import CronSettings

CRON = TriggerKind(kind="cron", Settings=CronSettings, trigger="headrace.triggers.cron.trigger:CronTrigger")
