"""The transactional ids of partitions' producers: whoever takes one last fences those who had it before."""

from headrace.runtime.partitions.key import PartitionKey


def transactional_id(group: str, key: PartitionKey) -> str:
    """Of one partition of one group, whatever their names: no topic has a slash. It begins with `GROUP-`."""
    return f"{group}-headrace/{key.topic}/{key.partition}"


def older_transactional_id(group: str, key: PartitionKey) -> str:
    """That of the release before: names may run into each other, as in `a` on `b-c`, and `a-b` on `c`."""
    return f"{group}-{key.topic}-{key.partition}"
