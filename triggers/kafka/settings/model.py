"""The settings of a Kafka trigger, and of a Kafka output: attributes, and the rules between them."""

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
    """The settings of a Kafka trigger, with what follows from them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *RULES,
        *FAILURE_RULES,
        *ORDER_RULES,
        *GROUP_RULES,
        *CONCURRENCY_RULES,
    )

    @property
    def limits(self) -> StreamLimits:
        """Bounds on how much is held."""
        name = "maxInFlight" if self.max_in_flight else "channelBufferSize"
        return StreamLimits(self.channel_buffer_size, self.max_in_flight, name, self.max_buffered_bytes)

    def of_replica(self, index: int | None) -> "KafkaSettings":
        """Return the settings of one replica: its groupInstanceId has variables expanded, and a number."""
        if not self.group_instance_id:
            return self
        # Replicas of one run share the environment: $HOSTNAME alone would be the same for all of them.
        number = "" if index is None else f"-{index}"
        return self.model_copy(
            update={"group_instance_id": os.path.expandvars(self.group_instance_id) + number}
        )

    def unhurried(self) -> "KafkaSettings":
        """Return settings with which a handler may stand for a day: its group waits for it, too."""
        # Twice a day: rebalanceTimeout has to be above the wait for handlers.
        waits = {"max_wait_handler_during_rebalance_seconds": _DAY, "rebalance_timeout_seconds": 2 * _DAY}
        return self.model_copy(update=waits)

    @property
    def access(self) -> BrokerAccess:
        """The brokers' addresses, and how to get in."""
        return broker_access(self)

    @property
    def spark_source_options(self) -> Mapping[str, str]:
        """Options with which Spark's Kafka source reads the topics."""
        return spark_source_options(self)


class KafkaOutputSettings(ClusterAttributes, OutputFields):
    """Settings of an output: a cluster that is no trigger's, with a sign-in of its own.

    Keys and rules are those of a trigger's attributes.
    """

    rules: ClassVar[tuple[Rule, ...]] = ACCESS_RULES

    @property
    def access(self) -> BrokerAccess:
        """The brokers' addresses, and how to get in."""
        return broker_access(self)
