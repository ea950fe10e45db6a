"""Brokers that don't take the protocol `consumer`: one line each."""

import asyncio
from unittest import mock

import pytest
from aiokafka import AIOKafkaConsumer
from broker import embedded
from group_member import GroupMember, members

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.errors import BrokerError


async def _refused(member: GroupMember, topic: str) -> str:
    member.start(topic)
    assert member.heartbeats is not None
    heartbeats, member.heartbeats = member.heartbeats, None
    with pytest.raises(BrokerError) as error:
        await asyncio.wait_for(heartbeats, 30)
    return str(error.value)


@pytest.mark.full
def test_a_broker_that_does_not_offer_it_is_named() -> None:
    async def main(bootstrap: str) -> str:
        async with members(bootstrap, "g", 1) as (member,):
            return await _refused(member, "t")

    off = {"group.coordinator.rebalance.protocols": "classic"}
    with (
        mock.patch.object(embedded_kafka, "broker_settings", lambda *given: broker_settings(*given) | off),
        embedded(t=1) as kafka,
    ):
        said = asyncio.run(main(kafka.bootstrap))
    assert "this broker has no group protocol `consumer`" in said


@pytest.mark.full
def test_a_group_of_classic_members_that_may_not_be_converted_is_named() -> None:
    async def main(bootstrap: str) -> str:
        classic = AIOKafkaConsumer("t", bootstrap_servers=bootstrap, group_id="g")
        await classic.start()
        try:
            async with members(bootstrap, "g", 1) as (member,):
                return await _refused(member, "t")
        finally:
            await classic.stop()

    off = {"group.consumer.migration.policy": "disabled"}
    with (
        mock.patch.object(embedded_kafka, "broker_settings", lambda *given: broker_settings(*given) | off),
        embedded(t=1) as kafka,
    ):
        said = asyncio.run(main(kafka.bootstrap))
    assert "group g is used by members of the protocol classic, and can't be converted" in said
