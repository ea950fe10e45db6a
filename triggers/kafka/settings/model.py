"""A Kafka trigger's settings: its attributes, and the rules between them."""

import os
from collections.abc import Mapping
from typing import ClassVar

from headrace.runtime.config.output import OutputFields
from headrace.runtime.config.shared_attributes import CONCURRENCY_RULES
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.partitions.flow_control import StreamLimits
from headrace.runtime.settings.declare import Rule
from headrace.triggers.kafka.settings.access import ACCESS_RULES, broker_access
from headrace.triggers.kafka.settings.attributes import KafkaAttributes
from headrace.triggers.kafka.settings.connection import ClusterAttributes
from headrace.triggers.kafka.settings.rules import FAILURE_RULES, GROUP_RULES, ORDER_RULES, RULES
from headrace.triggers.kafka.settings.spark_options import spark_source_options

_DAY = 86_400.0


class KafkaSettings(KafkaAttributes):
    """What a Kafka trigger goes by."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *RULES,
        *FAILURE_RULES,
        *ORDER_RULES,
        *GROUP_RULES,
        *CONCURRENCY_RULES,
    )

    @property
    def limits(self) -> StreamLimits:
        """How much is held."""
        name = "maxInFlight" if self.max_in_flight else "channelBufferSize"
        return StreamLimits(self.channel_buffer_size, self.max_in_flight, name, self.max_buffered_bytes)

    def of_replica(self, index: int | None) -> "KafkaSettings":
        """With a groupInstanceId of its own: variables are expanded, and those of one run are numbered."""
        if not self.group_instance_id:
            return self
        number = "" if index is None else f"-{index}"
        return self.model_copy(
            update={"group_instance_id": os.path.expandvars(self.group_instance_id) + number}
        )

    def unhurried(self) -> "KafkaSettings":
        """As Hurrying says: its group waits for it, too."""
        waits = {"max_wait_handler_during_rebalance_seconds": _DAY, "rebalance_timeout_seconds": 2 * _DAY}
        return self.model_copy(update=waits)

    @property
    def access(self) -> BrokerAccess:
        """Where the brokers are, and how to get in."""
        return broker_access(self)

    @property
    def spark_source_options(self) -> Mapping[str, str]:
        """Options with which Spark's Kafka source reads the topics."""
        return spark_source_options(self)


class KafkaOutputSettings(ClusterAttributes, OutputFields):
    """Keys and rules as those of a trigger's attributes."""

    rules: ClassVar[tuple[Rule, ...]] = ACCESS_RULES

    @property
    def access(self) -> BrokerAccess:
        """Where the brokers are, and how to get in."""
        return broker_access(self)
