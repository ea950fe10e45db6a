"""What Kubernetes' YAML reader makes of a number or a flag that stands where text is meant."""

from decimal import Decimal

_WITHOUT_EXPONENT = range(-4, 6)  # powers of ten that Go's %g writes out


def text_of_scalar(value: object) -> object:
    """The text for a number, true or false; for nothing, empty text. Anything else stays as it is."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _text_of_float(value)
        case _:
            return value


def _text_of_float(value: float) -> str:
    """The shortest text that gives the value back, as Go writes it."""
    exact = Decimal(repr(value))
    if not exact.is_finite():
        return {"Infinity": "+Inf", "-Infinity": "-Inf"}.get(str(exact), "NaN")
    power = exact.adjusted() if exact else 0
    if power in _WITHOUT_EXPONENT:
        return f"{exact:f}".removesuffix(".0")
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    mantissa = f"{digits[0]}.{digits[1:]}".removesuffix(".")
    return f"{'-' if value < 0 else ''}{mantissa}e{power:+03d}"
