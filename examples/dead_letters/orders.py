"""Adds up the orders of each customer. An order that can't be read ends up in the topic orders.dead."""

import json


def init_context(context):
    context.user_data.totals = {}


def handler(context, event):
    order = json.loads(event.body)  # what raises here is tried again, and then moved out of the way
    customer, amount = order["customer"], order["amount"]
    totals = context.user_data.totals
    totals[customer] = totals.get(customer, 0) + amount
    print(f"{customer} has ordered for {totals[customer]}")
