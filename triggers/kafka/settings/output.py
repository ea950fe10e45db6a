"""What function.yaml says of an output: a cluster that is no trigger's, with a sign-in of its own."""

from typing import ClassVar

from headrace.runtime.config.output import OutputFields
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.settings.declare import Rule
from headrace.triggers.kafka.settings.access import broker_access
from headrace.triggers.kafka.settings.access_rules import ACCESS_RULES
from headrace.triggers.kafka.settings.cluster import ClusterAttributes


class KafkaOutputSettings(ClusterAttributes, OutputFields):
    """Keys and rules as those of a trigger's attributes."""

    rules: ClassVar[tuple[Rule, ...]] = ACCESS_RULES

    @property
    def access(self) -> BrokerAccess:
        """Where the brokers are, and how to get in."""
        return broker_access(self)
