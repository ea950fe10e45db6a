"""Who has which shards of a v3io stream, and what is committed there: triggers/v3io, runtime/v3io."""

from mutant import Mutant

_SHARES = "triggers/v3io/shares.py"
_TESTS = "tests/triggers/v3io/test_shares.py"

MUTANTS = (
    Mutant(
        "takes-what-is-taken",
        "L4",
        "a newcomer takes its whole share, also what another member still has of it",
        _SHARES,
        "(set(shares[share]) - taken if takes_more else set())",
        "(set(shares[share]) if takes_more else set())",
        f"{_TESTS}::test_a_newcomer_takes_what_is_left",
    ),
    Mutant(
        "keeps-what-is-taken",
        "L4",
        "a member goes on with its shards though another one has them by now",
        _SHARES,
        "        if not taken.isdisjoint(member.shards):\n            return ShareDecision(others, None)\n",
        "",
        f"{_TESTS}::test_a_member_whose_shards_others_have_loses_all_of_them",
    ),
    Mutant(
        "stale-too-early",
        "L4",
        "a member is removed before its session has ended",
        _SHARES,
        "return now_ns - session.heartbeat_ns >= self.session_timeout_ns",
        "return now_ns - session.heartbeat_ns >= self.session_timeout_ns // 2",
        f"{_TESTS}::test_a_member_that_is_about_to_be_stale_keeps_its_share",
    ),
    Mutant(
        "never-stale",
        "L9",
        "the shards of a member that has died are nobody's",
        _SHARES,
        "if it.member_id != member.id and not self.is_stale(it, now_ns))",
        "if it.member_id != member.id)",
        f"{_TESTS}::test_a_stale_member_is_removed_and_its_share_taken",
    ),
    Mutant(
        "takes-while-stopping",
        "L9",
        "a member that stops takes shards that nobody reads then",
        _SHARES,
        "(set(shares[share]) - taken if takes_more else set())",
        "set(shares[share]) - taken",
        f"{_TESTS}::test_a_member_that_stops_takes_nothing_more",
    ),
    Mutant(
        "idles-for-ever",
        "L9",
        "a member that once found nothing to do takes over from nobody",
        _SHARES,
        "        if takes_more and not member.shards:\n",
        "        if takes_more and member.share is None:\n",
        f"{_TESTS}::test_an_idle_member_is_promoted_where_an_owner_is_gone",
    ),
    Mutant(
        "fractions-of-a-second",
        "L4",
        "heartbeats that other makes write with few digits count as earlier than they were",
        "runtime/v3io/group_format.py",
        '(fraction or "0").ljust(9, "0")',
        '(fraction or "0")',
        "tests/runtime/v3io/test_group_format.py::test_a_fraction_of_a_second_may_have_few_digits",
    ),
    Mutant(
        "groups-share-a-name",
        "L1",
        "a group that keeps its offsets where another one does isn't refused: each goes on from the other's",
        "runtime/v3io/group_format.py",
        'return "" if read == group else read',
        'return "" if read == attribute else read',
        "tests/runtime/v3io/test_v3io_client.py"
        "::test_a_group_that_would_share_the_attribute_of_another_is_known",
    ),
    Mutant(
        "over-others-commits",
        "L6",
        "a commit takes the place of one that another member has made further on",
        "triggers/v3io/shard_offsets.py",
        'f" AND (not(exists({name})) OR ({name} <= {done}))"',
        '""',
        "tests/triggers/v3io/test_shard_offsets.py"
        "::test_a_commit_never_takes_the_place_of_one_that_is_further",
    ),
    Mutant(
        "asks-each-option",
        "L9",
        "a list of options in a list of options doubles the work of a condition with each level",
        "runtime/embedded/v3io/language/syntax.py",
        "any(_are_equal(left, option.value(lookup)) for option in self.options)",
        "any(_are_equal(self.left.value(lookup), option.value(lookup)) for option in self.options)",
        "tests/runtime/embedded/v3io/test_v3io_language_work.py::test_twice_the_depth_is_twice_the_work[lists]",
    ),
)
