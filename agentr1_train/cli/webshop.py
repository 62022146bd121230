"""`agentr1 webshop serve`: the shop as web pages, for a person with a browser."""

from __future__ import annotations

import argparse

from agentr1_train.cli.common import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    commands = parser.add_subparsers(dest="webshop_command", metavar="COMMAND", required=True)
    text = "serve the shop on 127.0.0.1 (needs the extra 'serve')"
    serve = commands.add_parser("serve", help=text, description=text[:1].upper() + text[1:] + ".")
    serve.add_argument("--port", type=int, default=3000, help="default: %(default)s; 0: any free")
    serve.add_argument("--catalog", metavar="DIR", help="default: the generated catalog")
    serve.add_argument("--goals", choices=("human", "synthetic"), default="human")
    serve.add_argument("--split", default="test", help="default: %(default)s")
    serve.add_argument("--seed", type=int, default=None, help="of the order of tasks")
    serve.add_argument(
        "--compat", choices=("princeton",), help="follow the published shop where it differs"
    )
    serve.add_argument(
        "--attributes", action="store_true", help="offer the sub-page Attributes on item pages"
    )


def main(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        import uvicorn

        from agentr1_envs.webshop.server import Shop, create_app, free_socket
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is missing: pip install 'agentr1[serve]'") from None
    try:
        shop = Shop(
            catalog=args.catalog,
            goals=args.goals,
            split=args.split,
            compat=args.compat,
            show_attributes=args.attributes,
            seed=args.seed,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port} is outside 0..65535")
    listener = free_socket(args.port)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/  (Ctrl-C ends)", flush=True)
    config = uvicorn.Config(create_app(shop), log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])
    return 0
