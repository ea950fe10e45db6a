"""Stands for a service that takes its time: `python service.py [PORT]`."""

import asyncio
import sys

from aiohttp import web


async def weather(request: web.Request) -> web.Response:
    await asyncio.sleep(0.2)
    return web.Response(text=f"{len(request.match_info['city'])} degrees")


app = web.Application()
app.router.add_get("/weather/{city}", weather)

if __name__ == "__main__":
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8081)
