"""What function.yaml may say of a kafka-cluster trigger, and of an output."""

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
