"""Wire formats for tool calls: parsers, renderers, instructions. See `base` for the contract."""

from .base import (
    MAX_ERRORS,
    REASONS,
    ParsedReply,
    ParseError,
    ToolCall,
    ToolFormat,
    format_names,
    get_format,
)

__all__ = [
    "MAX_ERRORS",
    "REASONS",
    "ParseError",
    "ParsedReply",
    "ToolCall",
    "ToolFormat",
    "format_names",
    "get_format",
]
