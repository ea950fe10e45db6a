"""Checks one payment after another of each account, many accounts at a time."""

import hashlib


def handler(context, event):
    account, amount = event.key.decode(), int(event.body)
    checked = hashlib.pbkdf2_hmac("sha256", event.body, event.key, 50_000)  # stands for work
    context.logger.info_with("paid", account=account, amount=amount, checked=checked.hex()[:8])
