"""The declaration of the kind v3ioStream: what function.yaml may say of such a trigger."""

from headrace.runtime.config.trigger_kinds import TriggerKind
from headrace.triggers.v3io.settings import V3ioSettings

V3IO = TriggerKind(
    kind="v3ioStream",
    aliases=("v3io-stream",),
    Settings=V3ioSettings,
    annotations={"explicit_ack_mode": "v3iostream-explicit-ack-mode"},
    trigger="headrace.triggers.v3io.trigger:V3ioTrigger",
)
