"""A group with members of another make: they share the shards, and either takes over for the other."""

from pathlib import Path

import pytest
from go_member import GoMember, assign_shards, go_member, shard_groups
from replica import wait_until
from v3io_judging import check_one_owner, owners
from v3io_load import producing, watched
from v3io_scene import v3io_scene

from headrace.runtime.v3io.group_format import SessionState

TIMEOUT_SECONDS = 3.0


@pytest.mark.parametrize(
    ("replicas", "shards", "taken", "expected"),
    [
        (4, 8, [(0, 1), (4, 5)], (2, 3)),
        (3, 8, [(0, 1, 2)], (3, 4)),
        (4, 4, [(0,), (1,), (3,)], (2,)),
        (4, 2, [(0,), (1,)], ()),
        (4, 2, [(), ()], (0,)),
        (4, 2, [(), (0,)], ()),
    ],
)
def test_the_other_make_gives_what_v3io_gos_own_tests_expect(
    replicas: int, shards: int, taken: list[tuple[int, ...]], expected: tuple[int, ...]
) -> None:
    sessions = [SessionState(str(at), 0, it) for at, it in enumerate(taken)]
    assert assign_shards(shard_groups(replicas, shards), sessions) == expected


def test_members_of_both_makes_share_a_stream_and_take_over_for_each_other(tmp_path: Path) -> None:
    with v3io_scene(tmp_path, 12) as scene:
        function = scene.function(replicas=3)
        first_go, second_go = (GoMember(scene, number, 3, 12, TIMEOUT_SECONDS) for number in (1, 2))
        with watched(scene, 12) as watch:
            with producing(scene, 12, 100):
                with go_member(first_go):
                    scene.wait_shares([0, 1, 2, 3])
                    ours = [scene.start(function) for _ in range(2)]
                    scene.wait_shares([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11])
                    waiting = scene.start(function)
                    waiting.logged("this replica stands by")
                    wait_until(lambda: len(owners(scene.history)) == 12, about=waiting)
                scene.wait_owned(waiting, range(4))  # of the one that is dead
            with go_member(second_go):
                with producing(scene, 12, 100):
                    shards = scene.owner(ours[0]).shards
                    scene.kill(ours[0])
                    wait_until(lambda: second_go.shards == shards, about=ours[1])
                    count = len(scene.ended)
                    wait_until(lambda: len(scene.ended) > count + 100, about=ours[1])
                    scene.wait_shares([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11])
                    wait_until(lambda: 2 in {it.replica for it in scene.runs}, about=ours[1])
                    assert all(scene.owner(it).shards for it in (ours[1], waiting))
                scene.wait_handled()
        assert not watch.doubly_owned()
        check_one_owner(scene.history)
        found = owners(scene.history)
        assert {found["/orders", shard][0] for shard in range(4)} == {1}
        assert {found["/orders", shard][-1] for shard in shards} == {2}
