from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Request(_message.Message):
    __slots__ = ("sequence", "payload")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    payload: str
    def __init__(self, sequence: _Optional[int] = ..., payload: _Optional[str] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("sequence", "isprocessed")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ISPROCESSED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    isprocessed: bool
    def __init__(self, sequence: _Optional[int] = ..., isprocessed: _Optional[bool] = ...) -> None: ...
