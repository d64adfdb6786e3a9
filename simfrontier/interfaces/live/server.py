"""HTTP server of the live page: it listens on localhost only and handles one request after another."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from simfrontier.base.errors import InputError, SimfrontierError, Terminated
from simfrontier.base.optional import require
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.live.answer import Answerer
from simfrontier.interfaces.live.control import Control
from simfrontier.interfaces.live.job import has_experts
from simfrontier.interfaces.live.state import scenario_file, shown
from simfrontier.interfaces.report.links import STOPS
from simfrontier.interfaces.report.render import render

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST: Final = "127.0.0.1"  # other machines are not answered


def app_of(answerer: Answerer) -> Starlette:
    """Return the web application: `/` is the page, `/answer` its content for a state (given by the query string),
    `/scenario.toml` the state as a scenario file."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    scenario, controls, turn = answerer.scenario, answerer.controls, threading.Lock()
    page = live_page(scenario, controls)

    def answer(query: dict[str, str]) -> Response:
        with turn:
            return Response(answerer.answer(answerer.state(query)), media_type="application/json")

    def file(query: dict[str, str]) -> Response:
        text = scenario_file(scenario, controls, answerer.state(query))
        kept = {"Content-Disposition": f'attachment; filename="{scenario.name}-live.toml"'}
        return Response(text, media_type="application/toml", headers=kept)

    def route(path: str, work: Callable[[dict[str, str]], Response]) -> Route:
        async def respond(request: Request) -> Response:
            if is_of_another_page(request.headers):
                return Response("only the page that this server shows may ask", status_code=403)
            try:
                return await asyncio.to_thread(work, dict(request.query_params))
            except InputError as error:
                return JSONResponse({"error": str(error)}, status_code=400)
            except SimfrontierError as error:
                return JSONResponse({"error": str(error)}, status_code=503)

        return Route(path, respond)

    routes = [route("/", lambda _: HTMLResponse(page)), route("/answer", answer), route("/scenario.toml", file)]
    # A page of another site whose name leads to this address is not answered.
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])])


def is_of_another_page(headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from a page of another server, by the headers that browsers set: an `Origin` other
    than the requested host or, without an origin, `Sec-Fetch-Site`."""
    is_foreign = headers.get("origin", own := f"http://{headers.get('host')}") != own
    return is_foreign or headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def serve(scenario: Scenario, port: int, announce: Callable[[str], None]) -> None:
    """Serve the live page until Ctrl-C. `port` 0 selects any free port. `announce` is called with the address when the
    server is ready. Raises InputError if the port is in use."""
    require("serve", "serve")
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
    """Treat Ctrl-C as the regular end of the block, without an error; SIGTERM is raised."""
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


def live_page(scenario: Scenario, controls: Sequence[Control]) -> str:
    """Return the live page of a scenario, which loads no external resources."""
    groups = {"job": "Job", "grid": "A grid of your own", "unknown": "Settings that may be unknown"}
    return render(
        "pages/live.html.j2",
        title=scenario.file.title,
        scenario=scenario.name,
        given=scenario.settings,
        device=scenario.machine.device_word,
        plans=tuple(scenario.plans),
        has_experts=has_experts(scenario),
        groups={title: [each for each in controls if each.group == group] for group, title in groups.items()},
        moves={each.key: [shown(value) for value in each.values] for each in controls},
        stops=STOPS,
    )
