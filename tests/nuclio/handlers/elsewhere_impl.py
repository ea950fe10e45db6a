"""What elsewhere.py imports."""


def init_context(context):
    context.user_data.where = "impl"


def handler(context, event):
    context.logger.info(f"from {context.user_data.where} {event.offset}")
