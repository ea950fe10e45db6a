"""Greets whoever asks: the body of the request is a name, the answer is text."""


def handler(context, event):
    name = event.body.decode().strip() or "world"
    greeting = f"Hello, {name}!"
    if event.fields.get("loud"):
        greeting = greeting.upper()
    return context.Response(body=greeting, headers={"X-Worker": context.worker_id})
