"""Ports on loopback, which every user of the machine may take."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest
from neighbour import as_neighbour, needs_neighbour

from headrace.runtime.embedded.ports import (
    HOST,
    check_listener,
    choose_ports,
    claim_port,
    free_port,
    free_port_of_localhost,
)
from headrace.runtime.errors import UsageError

GRABS = """
import socket, sys, time
taken = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("taken", flush=True)
time.sleep(600)
"""
CHOOSES = """
import random
from headrace.runtime.embedded.ports import free_port
random.SystemRandom.sample = lambda self, population, count: population[10000:]
print(free_port())
"""


def test_a_listener_of_the_processs_own_is_fine() -> None:
    with socket.create_server((HOST, 0)) as ours:
        check_listener(os.getpid(), ours.getsockname()[1])


@needs_neighbour
@pytest.mark.parametrize("address", [HOST, "0.0.0.0"])
def test_a_port_that_another_user_grabbed_is_refused(address: str) -> None:
    port, held = free_port_of_localhost()
    if held is not None:
        held.close()
    stranger = as_neighbour(GRABS, address, port)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "taken\n"
        with pytest.raises(UsageError, match=f"another process than our server listens on {HOST}:{port}"):
            check_listener(os.getpid(), port)
    finally:
        stranger.kill()
        stranger.communicate()


def test_a_port_is_claimed_by_one_server_at_a_time() -> None:
    port = free_port()
    with (
        claim_port(port),
        pytest.raises(UsageError, match=f"cannot listen on {HOST}:{port}: Address already"),
    ):
        claim_port(port)
    claim_port(port).close()


def test_a_port_that_somebody_listens_on_is_not_claimed() -> None:
    with (
        socket.create_server((HOST, 0)) as others,
        pytest.raises(UsageError, match="stop what uses that port or choose another"),
    ):
        claim_port(others.getsockname()[1])


def test_two_servers_that_are_about_to_start_choose_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of them, the other process too, draw the same.
    def in_order(_: random.Random, population: Sequence[int], _count: int) -> Sequence[int]:
        return population[10000:]

    monkeypatch.setattr(random.SystemRandom, "sample", in_order)
    of_localhost, held = free_port_of_localhost()
    if held is not None:
        held.close()
    chosen = [free_port(), free_port(), *choose_ports(0, ["TLS"]).values(), of_localhost]
    assert len({*chosen, _chosen_elsewhere()}) == len(chosen) + 1


def _chosen_elsewhere() -> int:
    return int(subprocess.check_output([sys.executable, "-P", "-c", CHOOSES], text=True))


def test_localhosts_other_address_is_held() -> None:
    port, held = free_port_of_localhost()
    if held is None:
        pytest.skip("there is no ::1 here")
    with held, socket.socket(socket.AF_INET6) as another:
        another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            another.bind(("::1", port))
