"""The server of the live page: this machine's own address alone, one answer after another."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from simfrontier.errors import InputError, SimfrontierError, Terminated
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
_SCRIPT: Final = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)


def app_of(answerer: Answerer) -> Starlette:
    """The application: `/` is the page, `/answer` what it shows of a state (the query of its link),
    `/scenario.toml` the state as a scenario file."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    scenario, ahead = answerer.scenario, LookAhead(answerer)
    moves = {control.key: [shown(value) for value in control.values] for control in answerer.controls}
    page = live_page(scenario, answerer.controls, moves)
    headers = {"X-Frame-Options": "DENY", "Content-Security-Policy": content_policy(page)}

    async def start(_: Request) -> Response:
        return HTMLResponse(page)

    async def answer(request: Request) -> Response:
        return await _made(
            partial(Response, media_type="application/json"), lambda query: ahead.answer(answerer.state(query)), request
        )

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

    routes = [Route("/", start), Route("/answer", answer), Route("/scenario.toml", file)]

    async def of_own_page(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if is_of_another_page(request.headers):
            return PlainTextResponse("only the page that this server shows may ask", status_code=403)
        response = await call_next(request)
        response.headers.update(headers)
        return response

    # A page of another site is not answered: neither one whose name leads to this address, nor one that asks here.
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    return Starlette(routes=routes, middleware=[hosts, Middleware(BaseHTTPMiddleware, dispatch=of_own_page)])


def is_of_another_page(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from a page that this server did not send, by what browsers say of that: an origin, with
    its port, other than the host that is asked; or, where no origin is sent as for a picture, `Sec-Fetch-Site`."""
    is_foreign = headers.get("origin", own := f"http://{headers.get('host')}") != own
    return is_foreign or headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def content_policy(page: str) -> str:
    """The Content-Security-Policy of a page: its own scripts, styles that stand in it, answers of this server, and
    nothing from elsewhere; no other page may frame it."""
    scripts = (b64encode(sha256(script.encode()).digest()).decode() for script in _SCRIPT.findall(page))
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{each}'" for each in scripts),
        "style-src": "'unsafe-inline'",  # drawings of answers have widths and colours of their own
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{kind} {sources}" for kind, sources in allowed.items())


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
    with _until_ctrl_c(), listener, Answerer(scenario) as answerer:
        config = uvicorn.Config(app_of(answerer), log_level="warning", lifespan="off", timeout_graceful_shutdown=1)

        class Server(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                answerer.close()  # so that nobody waits for an answer that is being made
                super().handle_exit(sig, frame)

        server = Server(config)
        threading.Thread(target=_announce, args=(server, announce, address), daemon=True).start()
        server.run(sockets=[listener])


@contextmanager
def _until_ctrl_c() -> Iterator[None]:
    """Ctrl-C ends what is done meanwhile, and that is no error; SIGTERM is raised."""
    try:
        yield
    except Terminated:
        raise
    except KeyboardInterrupt:
        pass


def _announce(server: Any, announce: Callable[[str], None], address: str) -> None:
    while not server.started:
        time.sleep(0.02)
    announce(address)
