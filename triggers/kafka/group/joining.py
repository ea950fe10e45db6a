"""A membership and an offset store for a trigger's group, by its `groupProtocol` and `exactlyOnce`."""

from collections.abc import Callable

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient

from headrace.triggers.kafka.group.classic import ClassicMembership
from headrace.triggers.kafka.group.consumer import ConsumerMembership
from headrace.triggers.kafka.group.membership import GroupMembership, GroupMembershipListener
from headrace.triggers.kafka.group.offsets import GroupOffsets, MemberOffsets
from headrace.triggers.kafka.group.transactional_offsets import TransactionalOffsets
from headrace.triggers.kafka.produce.cluster import OutputCluster
from headrace.triggers.kafka.settings.model import KafkaSettings


def open_membership(  # noqa: PLR0913, PLR0917  # what both protocols need
    clients: tuple[AIOKafkaConsumer, AIOKafkaAdminClient],
    settings: KafkaSettings,
    late_ack_seconds: float,
    listener: GroupMembershipListener,
    on_failed_joins: Callable[[], None],
    transactions: tuple[OutputCluster, str],
) -> tuple[GroupMembership, GroupOffsets]:
    """Make a membership and its offset store for one connected consumer.

    Nothing is joined before the membership's `subscribe`. `late_ack_seconds`: how long a partition that
    leaves waits for explicit acks after its handlers. `transactions`: the cluster that messages go to, and
    this replica's client id, for `exactlyOnce`.
    """
    consumer, admin = clients
    if settings.group_protocol == "consumer":
        # The broker fences a member that takes longer to give up partitions, so it has to be told how long
        # that may be.
        waits_seconds = settings.max_wait_handler_during_rebalance_seconds + late_ack_seconds
        member = ConsumerMembership(consumer, admin, settings, waits_seconds, listener)
        return member, MemberOffsets(consumer, admin, member.session)
    classic = ClassicMembership(consumer, admin, settings, listener, on_failed_joins)
    if settings.exactly_once:
        return classic, TransactionalOffsets(clients, settings, *transactions)
    return classic, GroupOffsets(consumer, admin, settings.consumer_group)
