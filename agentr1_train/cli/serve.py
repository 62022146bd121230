"""`agentr1 serve`: an environment behind OpenEnv's HTTP and WebSocket server."""

from __future__ import annotations

import argparse

from agentr1_train.cli.common import UsageError, add_env_option, find_env_id, make_env, parse_pairs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("env", help="an id, or a short name such as hotpotqa")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port (8000)")
    parser.add_argument("--max-sessions", type=int, default=64, help="most sessions at once (64)")
    add_env_option(parser)


def main(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    env_id, kwargs = find_env_id(args.env), parse_pairs(args.env_kwargs)
    make_env(env_id, kwargs).close()
    try:
        import uvicorn

        from agentr1_envs.bridges.openenv import make_app
    except ImportError as error:
        raise UsageError(f"serving needs openenv ({error.name}): pip install openenv") from error
    app = make_app(env_id, max_concurrent_envs=args.max_sessions, **kwargs)
    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")
    return 0
