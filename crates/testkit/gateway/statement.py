"""Splits the text of a request into the statement and the data behind it.

The server takes the `query` parameter and the body as one stream; an INSERT's data begins where its FORMAT clause ends.
Only as much of the grammar is known here as that needs: quotes, comments, brackets, and the words between them.
"""

from dataclasses import dataclass

_SPACE = b" \t\r\n\f\v"
_QUOTES = b"'\"`"


class StatementError(Exception):
    """The text holds no single statement; `code` is ClickHouse's number for it."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


@dataclass
class Statement:
    """`sql` without an INSERT's SETTINGS and FORMAT clauses; `data` is None unless the engine is to parse it by `format`."""

    verb: str
    sql: bytes
    format: str | None = None
    data: memoryview | None = None
    settings: bytes = b""


def _skip_quoted(text: bytes, at: int) -> int:
    quote = text[at]
    at += 1
    while at < len(text):
        if text[at] == 0x5C:
            at += 2
        elif text[at] == quote:
            return at + 1
        else:
            at += 1
    return len(text)


def _skip_blank(text: bytes, at: int) -> int:
    """Past white space and comments."""
    while at < len(text):
        if text[at] in _SPACE:
            at += 1
        elif text.startswith(b"--", at):
            end = text.find(b"\n", at)
            at = len(text) if end < 0 else end + 1
        elif text.startswith(b"/*", at):
            end = text.find(b"*/", at + 2)
            at = len(text) if end < 0 else end + 2
        else:
            return at
    return at


def _words(text: bytes):
    """Yields (word in upper case, start, end) outside quotes and brackets; `;` comes as a word of its own."""
    at, depth = 0, 0
    while (at := _skip_blank(text, at)) < len(text):
        byte = text[at]
        if byte in _QUOTES:
            at = _skip_quoted(text, at)
        elif byte in b"([{":
            depth, at = depth + 1, at + 1
        elif byte in b")]}":
            depth, at = depth - 1, at + 1
        elif byte == 0x3B:
            at += 1
            if depth == 0:
                yield ";", at - 1, at
        elif chr(byte).isalnum() or byte == 0x5F or byte > 127:
            start = at
            while at < len(text) and (chr(text[at]).isalnum() or text[at] == 0x5F or text[at] > 127):
                at += 1
            if depth == 0:
                yield text[start:at].decode("utf-8", "replace").upper(), start, at
        else:
            at += 1


def _data_start(text: bytes, at: int) -> int:
    """Where the data begins after a format's name: blanks, then at most one line end, are the statement's."""
    while at < len(text) and text[at] in b" \t\f":
        at += 1
    if text.startswith(b"\r\n", at):
        return at + 2
    return at + 1 if text.startswith(b"\n", at) else at


def split(text: bytes) -> Statement:
    """The one statement in `text`; an INSERT ... FORMAT is split from its data."""
    words = _words(text)
    first = next(words, None)
    if first is None:
        raise StatementError(62, "Syntax error: failed at position 1 (end of query): . Empty query. (SYNTAX_ERROR)")
    verb = first[0]
    if verb == "INSERT":
        return _split_insert(text, words)
    format_name, after_format = None, False
    for word, start, end in words:
        if word == ";":
            if _skip_blank(text, end) < len(text):
                raise StatementError(62, f"Syntax error (Multi-statements are not allowed): failed at position {start + 1} (end of query). (SYNTAX_ERROR)")
            text = text[:start]
            break
        if after_format:
            format_name = text[start:end].decode()
        after_format = word == "FORMAT"
    return Statement(verb, text, format_name)


def _split_insert(text: bytes, words) -> Statement:
    settings = None
    for word, start, end in words:
        if word == "SETTINGS" and settings is None:
            settings = start
        if word in ("VALUES", "SELECT", "WITH", "INFILE"):
            break
        if word == "FORMAT":
            name = next(words, None)
            if name is None or name[0] == ";":
                raise StatementError(62, f"Syntax error: failed at position {end} (end of query). Expected identifier. (SYNTAX_ERROR)")
            if name[0] == "VALUES":
                break
            begin = _data_start(text, name[2])
            ends = start if settings is None else settings
            return Statement("INSERT", text[:ends].rstrip(), text[name[1]:name[2]].decode(), memoryview(text)[begin:], text[ends:start].strip())
    return Statement("INSERT", text)
