"""The one error of the language."""


class MalformedError(ValueError):
    """A value, a condition or an expression that is none: the text says what was found, and what may be."""
