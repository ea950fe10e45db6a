"""A method of aiokafka's that finds other things under the names that it uses."""

from types import FunctionType, MethodType


def rebind_globals(method: FunctionType, owner: object, **others: object) -> MethodType:
    """`method`, bound to `owner`, for which some global names stand for `others`; nobody else notices."""
    names = {**method.__globals__, **others}
    copy = FunctionType(method.__code__, names, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    return MethodType(copy, owner)
