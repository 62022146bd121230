"""The shop as web pages, for a person in a browser.

Pages are made from the same session as the agents' observations. Everything from the catalog is
escaped by the template engine; the server listens on 127.0.0.1, answers only requests that name it
so (a page of another site can't reach it through a name that points here), sends no script and
loads nothing from elsewhere.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from agentr1_envs.errors import EnvironmentFault
from agentr1_envs.seeding import derive_int
from agentr1_envs.webshop import pages
from agentr1_envs.webshop.env import WebShopEnv

COOKIE = "agentr1_webshop"
MAX_VISITORS = 1000
MAX_BODY = 10_000
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Visit:
    """One person's environment and what is shown to them."""

    def __init__(self, number: int, seed: int | None, arguments: dict[str, Any]) -> None:
        # A person may take all the time they want.
        self.env = WebShopEnv(max_steps=1_000_000, **arguments)
        self.lock = threading.Lock()
        self.notice = ""
        self.result: dict[str, Any] | None = None
        self.steps = 0
        start = None if seed is None else derive_int("webshop-visit", seed, number, bits=31)
        self.new(start)

    def new(self, seed: int | None = None) -> None:
        """Another task."""
        self.env.reset(seed=seed)
        self.notice, self.result, self.steps = "", None, 0

    def act(self, action: str) -> None:
        """Do an action of the agents' kind."""
        if self.result is not None:
            return
        _, reward, over, _, info = self.env.step(action)
        self.steps += 1
        self.notice = info.get("agent_error", {}).get("message", "")
        if over:
            self.result = {"score": info["score"], "reward": reward, **info["metrics"]}


class Shop:
    """All visitors of one server.

    Args:
        seed: Makes the order of tasks repeatable; None draws it.
        arguments: For `WebShopEnv`.

    Raises:
        ValueError, TaskDataError, EnvironmentFault: As `WebShopEnv`; told now, not to a visitor.
    """

    def __init__(self, *, seed: int | None = None, **arguments: Any) -> None:
        self.seed, self.arguments = seed, arguments
        len(WebShopEnv(**arguments).tasks)
        self._visits: OrderedDict[str, Visit] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    def visit(self, token: str | None) -> tuple[str, Visit]:
        """The visit of a cookie's token, or a new one with its token."""
        with self._lock:
            if token is not None and token in self._visits:
                self._visits.move_to_end(token)
                return token, self._visits[token]
            token = secrets.token_urlsafe(24)
            visit = Visit(self._count, self.seed, self.arguments)
            self._count += 1
            self._visits[token] = visit
            if len(self._visits) > MAX_VISITORS:
                self._visits.popitem(last=False)
            return token, visit


def free_socket(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1.

    Raises:
        EnvironmentFault: The port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise EnvironmentFault(f"127.0.0.1:{port} can't be used: {error.strerror}") from None
    return listener


@lru_cache(maxsize=1)
def _template() -> Any:
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(loader=loader, autoescape=True).get_template("shop.html")


def render(visit: Visit) -> str:
    """The visitor's current page as HTML."""
    session = visit.env.session
    assert session is not None
    view: dict[str, Any] = {
        "instruction": session.instruction,
        "page": session.page,
        "query": session.query,
        "notice": visit.notice,
        "steps": visit.steps,
        "result": visit.result,
        "buttons": [],
        "groups": [],
        "cards": [],
        "texts": [],
    }
    if visit.result is not None:
        view["product"], view["options"] = session.product, session.options
        view["target"] = visit.env.task
        return _template().render(view)
    nodes = session.nodes
    view["buttons"] = [text for kind, text, _ in nodes if kind == pages.BUTTON]
    if session.page == "results":
        view["heading"] = next(text for _, text, _ in nodes if text.startswith("Page "))
        for place, (kind, text, on) in enumerate(nodes):
            if kind == pages.LINK:
                view["cards"].append((text, nodes[place + 1][1], nodes[place + 2][1], on))
    elif session.page == "item":
        view["product"] = session.product
        for place, (kind, text, on) in enumerate(nodes):
            if kind == pages.OPTION:
                if nodes[place - 1][0] is pages.TEXT:
                    view["groups"].append((nodes[place - 1][1], []))
                view["groups"][-1][1].append((text, on))
    elif session.page == "sub":
        view["heading"], view["product"] = session.sub_page, session.product
        view["texts"] = [text.strip() for kind, text, _ in nodes[2:] if kind == pages.TEXT]
    return _template().render(view)


def create_app(shop: Shop) -> Any:
    """The FastAPI application."""
    from fastapi import FastAPI, Request
    from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.routing import Route

    app = FastAPI(title="WebShop", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])

    def page(request: Request) -> Response:
        token, visit = shop.visit(request.cookies.get(COOKIE))
        with visit.lock:
            response = HTMLResponse(render(visit), headers=HEADERS)
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response

    async def act(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                return PlainTextResponse("The request is too long.", 413)
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)

        def do() -> Response:
            token, visit = shop.visit(request.cookies.get(COOKIE))
            with visit.lock:
                if "new" in form:
                    visit.new()
                elif "search" in form:
                    visit.act(f"search[{' '.join(form['search'][0].split())}]")
                elif "click" in form:
                    visit.act(f"click[{form['click'][0]}]")
            response = RedirectResponse("/", status_code=303, headers=HEADERS)
            response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return response

        return await run_in_threadpool(do)

    # Plain routes: FastAPI's own would want to read the request's fields from annotations.
    app.router.routes += [Route("/", page, methods=["GET"]), Route("/", act, methods=["POST"])]
    return app
