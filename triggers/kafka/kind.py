"""The kind `kafka-cluster`, for triggers and outputs: what function.yaml is read with. Loads no client."""

from headrace.runtime.config.output import OutputKind
from headrace.triggers.kafka.settings.model import KafkaOutputSettings, KafkaSettings

KAFKA = OutputKind(
    kind="kafka-cluster",
    aliases=("kafka",),
    Settings=KafkaSettings,
    OutputSettings=KafkaOutputSettings,
    annotations={"explicit_ack_mode": "kafka-explicit-ack-mode"},
    trigger="headrace.triggers.kafka.trigger:KafkaTrigger",
)
