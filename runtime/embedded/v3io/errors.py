"""The errors of the web API, worded as the platform words them."""

# Codes that stand in no page of the vendor's are made up: clients go by status and text.
_INVALID_ARGUMENT = -201326592
_RESOURCE_IN_USE = -201326593
_SHARD_ID_OUT_OF_RANGE = -201326594
_ILLEGAL_LOCATION = -201326595
_INVALID_SHARD_COUNT = -201326596
_RESOURCE_NOT_STREAM = -201326597
_CONDITION_FAILED = -201326598


class ApiError(Exception):
    """An HTTP status, the platform's code, and a text that begins with the platform's own."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def no_such_file() -> ApiError:
    return ApiError(404, -2, "No such file or directory")


def container_not_found(name: str) -> ApiError:
    return ApiError(404, -2, f"Container not found: {name!r}; the option --container makes another")


def invalid_argument(why: str) -> ApiError:
    return ApiError(400, _INVALID_ARGUMENT, f"InvalidArgumentException: {why}")


def too_large(most_bytes: int) -> ApiError:
    return ApiError(
        413, _INVALID_ARGUMENT, f"InvalidArgumentException: a request has at most {most_bytes} bytes"
    )


def shard_id_out_of_range(shard_id: int, shard_count: int) -> ApiError:
    return ApiError(
        400, _SHARD_ID_OUT_OF_RANGE, f"ShardIDOutOfRangeException: shard {shard_id} of {shard_count}"
    )


def illegal_location(why: str) -> ApiError:
    return ApiError(400, _ILLEGAL_LOCATION, f"IllegalLocationException: {why}")


def resource_in_use() -> ApiError:
    return ApiError(409, _RESOURCE_IN_USE, "ResourceInUseException: something of that name is there")


def invalid_shard_count(requested: int, shard_count: int) -> ApiError:
    return ApiError(
        400,
        _INVALID_SHARD_COUNT,
        f"InvalidShardCountException: {requested} is no more than the {shard_count} that it has",
    )


def resource_not_stream() -> ApiError:
    return ApiError(400, _RESOURCE_NOT_STREAM, "ResourceNotStreamException: it is no stream")


def condition_failed() -> ApiError:
    return ApiError(400, _CONDITION_FAILED, "ConditionalCheckFailedException: the condition is false")


def not_permitted(why: str) -> ApiError:
    return ApiError(403, -1, f"Operation not permitted: {why}")


def is_a_directory() -> ApiError:
    return ApiError(409, -21, "Is a directory")


def not_a_directory() -> ApiError:
    return ApiError(409, -20, "Not a directory")


def not_empty() -> ApiError:
    return ApiError(409, -39, "Directory not empty")
