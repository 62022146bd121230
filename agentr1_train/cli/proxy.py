"""`agentr1 proxy`: record what an agent says to an OpenAI-compatible server."""

from __future__ import annotations

import argparse

from agentr1_train.cli.common import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "--upstream", required=True, help="base URL of the server, such as http://host:8000/v1"
    )
    parser.add_argument("--out", default="episodes", help="folder for the episodes (episodes)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8010, help="port (8010)")
    parser.add_argument(
        "--token-ids",
        choices=("auto", "on", "off"),
        default="auto",
        help="ask the server for token ids and log-probabilities (auto: while it takes it)",
    )
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds (600)")


def main(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        import uvicorn

        from agentr1_train.proxy import EpisodeStore, Recorder, make_app
    except ImportError as error:
        raise UsageError(f"the proxy needs {error.name}: pip install 'agentr1[serve]'") from error
    if not args.upstream.startswith(("http://", "https://")):
        raise UsageError(f"--upstream must be an http(s) URL, got {args.upstream!r}")
    store = EpisodeStore(args.out)
    recorder = Recorder(args.upstream, store, token_ids=args.token_ids, timeout=args.timeout)
    print(f"recording {args.upstream} at http://{args.host}:{args.port}/v1 into {args.out}")
    uvicorn.run(make_app(recorder), host=args.host, port=args.port, log_level="warning")
    return 0
