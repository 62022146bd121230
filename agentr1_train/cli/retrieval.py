"""`agentr1 retrieval build|search|serve`: indexes on disk and over HTTP."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentr1_envs.retrieval import MAX_QUERY_CHARS, QueryError
from agentr1_train.cli.common import UsageError

if TYPE_CHECKING:
    from agentr1_envs.retrieval import Retriever

TOKEN_VARIABLE = "AGENTR1_RETRIEVAL_TOKEN"


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text}")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    build = actions.add_parser(
        "build",
        help="index a corpus file",
        description="Index a corpus: JSON lines of {id, title, text}. An interrupted build goes on "
        "where it stopped when the command is given again.",
    )
    build.add_argument("--corpus", required=True, type=Path, help="the corpus file")
    build.add_argument("--index", type=Path, help="folder to make (CORPUS.bm25 or CORPUS.dense)")
    build.add_argument("--dense", metavar="MODEL", help="a dense index with this sentence encoder")
    build.add_argument("--dtype", choices=("float32", "float16"), default="float32")
    build.add_argument("--workers", type=_positive, help="processes (default: the cores, up to 8)")
    build.add_argument("--k1", type=float, default=0.9, help="BM25's k1 (default 0.9)")
    build.add_argument("--b", type=float, default=0.4, help="BM25's b (default 0.4)")
    build.add_argument("--ids-only", action="store_true", help="store no titles and texts")
    build.add_argument("--quiet", action="store_true", help="no progress bar")
    _add_encoder(build)

    search = actions.add_parser(
        "search",
        help="search an index, a corpus file or a server",
        description="Search. With several places, their rankings are fused.",
    )
    search.add_argument("query")
    search.add_argument("-k", type=_positive, default=5, help="passages wanted (default 5)")
    search.add_argument("--json", action="store_true", help="one JSON object a line")
    _add_places(search)

    serve = actions.add_parser(
        "serve",
        help="serve an index over HTTP",
        description="Serve an index over HTTP. With several places, their rankings are fused. "
        f"If {TOKEN_VARIABLE} is set in the environment, clients must send it.",
    )
    _add_places(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address to bind (default 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8765, help="port (default 8765; 0: any)")
    serve.add_argument("--max-k", type=_positive, default=1000, help="passages a query")
    serve.add_argument("--max-queries", type=_positive, default=256, help="queries a request")
    serve.add_argument("--max-query-chars", type=_positive, default=MAX_QUERY_CHARS)
    serve.add_argument("--max-body", type=_positive, default=1 << 20, help="bytes a request")
    serve.add_argument("--timeout", type=float, default=30.0, help="seconds a request")
    serve.add_argument("--threads", type=_positive, default=4, help="searches at once")


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--index",
        action="append",
        required=True,
        metavar="PLACE",
        help="an index folder, a corpus file (its BM25 index is built if need be) or a server's "
        "URL; may be given several times",
    )
    _add_encoder(parser)


def _add_encoder(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("encoder of dense indexes")
    if parser.prog.split()[-1] != "build":
        group.add_argument("--model", help="sentence encoder (default: the one the index names)")
    group.add_argument("--library", default="auto", help="sentence-transformers or transformers")
    group.add_argument("--pooling", choices=("mean", "cls"), help="for transformers")
    group.add_argument("--device", help="torch device (default: a GPU if there is one)")
    group.add_argument("--query-prefix", default="", help="put before each query")
    group.add_argument("--passage-prefix", default="", help="put before each passage")
    group.add_argument("--max-length", type=_positive, help="cut texts at this many tokens")
    group.add_argument("--batch-size", type=_positive, default=64, help="texts encoded at once")
    group.add_argument("--download", action="store_true", help="the model may be downloaded")


def main(args: argparse.Namespace) -> int:
    """Run the action."""
    try:
        return {"build": _build, "search": _search, "serve": _serve}[args.action](args)
    except QueryError as error:
        raise UsageError(str(error)) from None
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise UsageError(str(error)) from None


def _encoder(args: argparse.Namespace, model: str) -> Any:
    from agentr1_envs.retrieval import load_encoder

    return load_encoder(
        model,
        library=args.library,
        device=args.device,
        pooling=args.pooling,
        query_prefix=args.query_prefix,
        passage_prefix=args.passage_prefix,
        max_length=args.max_length,
        batch_size=args.batch_size,
        download=args.download,
    )


def _build(args: argparse.Namespace) -> int:
    from agentr1_envs.retrieval import opening
    from agentr1_envs.retrieval.documents import CorpusFile

    start = time.perf_counter()
    corpus = CorpusFile(args.corpus)
    if args.dense:
        from agentr1_envs.retrieval import DenseIndex

        folder = args.index or Path(f"{args.corpus}.dense")
        index: Any = DenseIndex.build(
            corpus,
            folder,
            _encoder(args, args.dense),
            dtype=args.dtype,
            engine="numpy",
            store_text=not args.ids_only,
            progress=not args.quiet,
            source=str(corpus.path),
        )
    else:
        folder = opening.build_corpus(
            args.corpus,
            args.index,
            progress=not args.quiet,
            k1=args.k1,
            b=args.b,
            workers=args.workers,
            store_text=not args.ids_only,
        )
        from agentr1_envs.retrieval import Bm25Index

        index = Bm25Index.open(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    seconds = time.perf_counter() - start
    print(f"{folder}: {index.documents:,} documents, {size / 1e6:,.1f} MB, {seconds:.1f} s")
    return 0


def _retriever(args: argparse.Namespace) -> Retriever:
    from agentr1_envs.retrieval import HybridRetriever, open_retriever
    from agentr1_envs.retrieval.opening import dense_model

    found = []
    for place in args.index:
        model = dense_model(place)
        options = {} if model is None else {"encoder": _encoder(args, args.model or model)}
        found.append(open_retriever(place, **options))
    return found[0] if len(found) == 1 else HybridRetriever(found)


def _search(args: argparse.Namespace) -> int:
    passages = _retriever(args).search(args.query, args.k)
    if args.json:
        for passage in passages:
            print(json.dumps(passage._asdict(), ensure_ascii=False))
        return 0
    if not passages:
        print("nothing found", file=sys.stderr)
    for rank, passage in enumerate(passages, 1):
        text = " ".join(passage.text.split())
        print(f"{rank:>3}  {passage.score:8.4f}  {passage.title or passage.id}")
        if text:
            print(f"               {text if len(text) <= 160 else text[:159] + '…'}")
    return 0


def _serve(args: argparse.Namespace) -> int:
    try:
        from agentr1_envs.retrieval import server
    except ImportError as error:
        raise UsageError(f"{error}; pip install 'agentr1[serve]'") from None
    if not 0 <= args.port <= 65535:
        raise UsageError(f"--port is 0 to 65535, got {args.port}")
    if args.timeout <= 0:
        raise UsageError(f"--timeout is over 0, got {args.timeout:g}")
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is None and args.host not in ("127.0.0.1", "localhost", "::1"):
        print(
            f"warning: {args.host} is open to other machines without a token; set {TOKEN_VARIABLE}",
            file=sys.stderr,
        )
    limits = server.Limits(
        body_bytes=args.max_body,
        queries=args.max_queries,
        query_chars=args.max_query_chars,
        k=args.max_k,
        seconds=args.timeout,
        threads=args.threads,
    )
    server.serve(_retriever(args), host=args.host, port=args.port, token=token, limits=limits)
    return 0
