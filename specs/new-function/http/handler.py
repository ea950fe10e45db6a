"""Called for each request; what it returns is the answer. What raises answers 500."""

from headrace import Context, Event


def handler(context: Context, event: Event) -> str:
    words = len((event.body or b"").decode().split())
    context.logger.info_with("a request", words=words)
    return f"{words} words\n"
