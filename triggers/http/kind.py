"""The declaration of the kind http: what function.yaml may say of such a trigger."""

from headrace.runtime.config.trigger_kinds import TriggerKind
from headrace.triggers.http.settings import HttpSettings

HTTP = TriggerKind(kind="http", Settings=HttpSettings, trigger="headrace.triggers.http.trigger:HttpTrigger")
