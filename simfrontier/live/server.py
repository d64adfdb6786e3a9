"""The server of the live page: this machine's own address alone, one answer after another."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.live.ahead import LookAhead
from simfrontier.live.answer import Answerer
from simfrontier.live.state import scenario_file, shown
from simfrontier.report import live_page
from simfrontier.scenario import Scenario

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST: Final = "127.0.0.1"  # other machines are not answered


def app_of(answerer: Answerer) -> Starlette:
    """The application: `/` is the page, `/answer` what it shows of a state (the query of its link), `/estimate` what is
    known of it before that, `/scenario.toml` the state as a scenario file."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    scenario, ahead = answerer.scenario, LookAhead(answerer)
    moves = {control.key: [shown(value) for value in control.values] for control in answerer.controls}
    page = live_page(scenario, answerer.controls, moves)

    async def start(_: Request) -> Response:
        return HTMLResponse(page)

    async def answer(request: Request) -> Response:
        return await _made(
            partial(Response, media_type="application/json"), lambda query: ahead.answer(answerer.state(query)), request
        )

    async def estimate(request: Request) -> Response:
        return await _made(JSONResponse, lambda query: answerer.estimate(answerer.state(query)), request)

    async def file(request: Request) -> Response:
        def text(query: dict[str, str]) -> str:
            return scenario_file(scenario, answerer.controls, answerer.state(query))

        kept = {"Content-Disposition": f'attachment; filename="{scenario.name}-live.toml"'}
        return await _made(partial(PlainTextResponse, media_type="application/toml", headers=kept), text, request)

    async def _made(response: Callable[[Any], Response], work: Callable[..., Any], request: Request) -> Response:
        try:
            return response(await asyncio.to_thread(work, dict(request.query_params)))
        except SimfrontierError as error:
            return JSONResponse({"error": str(error)}, status_code=422)

    routes = [Route("/", start), Route("/answer", answer), Route("/estimate", estimate), Route("/scenario.toml", file)]
    # A page of another site, whose name leads to this address, is not answered.
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    return Starlette(routes=routes, middleware=[hosts])


def serve(scenario: Scenario, port: int, announce: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. `port` 0: any that is free. `announce` is called with the address when it answers. Raises
    InputError for a port that is taken."""
    import uvicorn

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise InputError(f"got {port}: {error.strerror}; allowed: a free port, or 0 for any", where="--port") from None
    address = f"http://{HOST}:{listener.getsockname()[1]}/"
    with suppress(KeyboardInterrupt), listener, Answerer(scenario) as answerer:
        config = uvicorn.Config(app_of(answerer), log_level="warning", lifespan="off", timeout_graceful_shutdown=1)

        class Server(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                answerer.close()  # so that nobody waits for an answer that is being made
                super().handle_exit(sig, frame)

        server = Server(config)
        threading.Thread(target=_announce, args=(server, announce, address), daemon=True).start()
        server.run(sockets=[listener])


def _announce(server: Any, announce: Callable[[str], None], address: str) -> None:
    while not server.started:
        time.sleep(0.02)
    announce(address)
