"""A ClickHouse HTTP endpoint for tests: the real engine (PyPI `chdb-core`) behind the server's HTTP interface.

What is the engine's: SQL, types, formats, MergeTree, merges, FINAL, error numbers and texts. What is only modelled here, after
the server's documentation: authentication, HTTP statuses, headers, compression. Data is in the folder once a request is answered.
"""

import argparse
import base64
import gzip
import hmac
import json
import os
import signal
import sys
import threading
import traceback
import uuid
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

os.environ.setdefault("TZ", "UTC")

from engine import Engine, EngineError  # noqa: E402
from statement import StatementError, split  # noqa: E402

try:
    import lz4.frame as lz4_frame
except ImportError:
    lz4_frame = None
try:
    from backports import zstd
except ImportError:
    zstd = None

# Parameters that are the protocol's own; everything else in the address is a setting.
PROTOCOL = {
    "query", "database", "user", "password", "default_format", "query_id", "session_id", "session_timeout", "session_check",
    "wait_end_of_query", "buffer_size", "compress", "decompress", "stacktrace", "quota_key", "client_protocol_version", "role",
}

STATUS_OF = {
    401: ["REQUIRED_PASSWORD"],
    403: ["UNKNOWN_USER", "WRONG_PASSWORD", "AUTHENTICATION_FAILED", "SET_NON_GRANTED_ROLE", "ACCESS_DENIED"],
    400: [
        "BAD_ARGUMENTS", "CANNOT_COMPILE_REGEXP", "CANNOT_PARSE_TEXT", "CANNOT_PARSE_ESCAPE_SEQUENCE", "CANNOT_PARSE_QUOTED_STRING",
        "CANNOT_PARSE_DATE", "CANNOT_PARSE_DATETIME", "CANNOT_PARSE_NUMBER", "CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING", "CANNOT_PARSE_IPV4",
        "CANNOT_PARSE_IPV6", "CANNOT_PARSE_INPUT_ASSERTION_FAILED", "CANNOT_PARSE_UUID", "DUPLICATE_COLUMN", "ILLEGAL_COLUMN",
        "UNKNOWN_ELEMENT_IN_AST", "UNKNOWN_TYPE_OF_AST_NODE", "THERE_IS_NO_COLUMN", "TOO_DEEP_AST", "TOO_BIG_AST",
        "UNEXPECTED_AST_STRUCTURE", "SYNTAX_ERROR", "INCORRECT_DATA", "TYPE_MISMATCH", "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
    ],
    404: [
        "UNKNOWN_TABLE", "UNKNOWN_FUNCTION", "UNKNOWN_IDENTIFIER", "UNKNOWN_TYPE", "UNKNOWN_STORAGE", "UNKNOWN_DATABASE", "UNKNOWN_SETTING",
        "UNKNOWN_DIRECTION_OF_SORTING", "UNKNOWN_AGGREGATE_FUNCTION", "UNKNOWN_FORMAT", "UNKNOWN_DATABASE_ENGINE",
        "UNKNOWN_TYPE_OF_QUERY", "UNKNOWN_ROLE",
    ],
    408: ["TIMEOUT_EXCEEDED"],
    411: ["HTTP_LENGTH_REQUIRED"],
    413: ["QUERY_IS_TOO_LARGE"],
    415: ["UNSUPPORTED_MEDIA_TYPE"],
    501: ["NOT_IMPLEMENTED"],
    503: ["SOCKET_TIMEOUT", "CANNOT_OPEN_FILE", "CANNOT_SCHEDULE_TASK"],
}
STATUS = {name: status for status, names in STATUS_OF.items() for name in names}

CONTENT_TYPE = {
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TabSeparatedWithNames": "text/tab-separated-values; charset=UTF-8",
    "TabSeparatedWithNamesAndTypes": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    "ArrowStream": "application/octet-stream",
    "Native": "application/octet-stream",
    "RowBinary": "application/octet-stream",
}


class Refused(Exception):
    """An answer decided before the engine is asked."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


def decompress_lz4(body: bytes) -> bytes:
    """All frames of the body: a client may send one for each block, and `lz4.frame.decompress` would stop after the first."""
    parts = []
    while body:
        frame = lz4_frame.LZ4FrameDecompressor()
        parts.append(frame.decompress(body))
        if not frame.eof:
            raise EOFError("the last LZ4 frame is cut off")
        body = frame.unused_data or b""
    return b"".join(parts)


def decompress(encoding: str, body: bytes) -> bytes:
    """The body as it was before its Content-Encoding. Raises Refused."""
    try:
        match encoding:
            case "" | "identity":
                return body
            case "gzip":
                return gzip.decompress(body)
            case "deflate":
                return zlib.decompress(body)
            case "lz4" if lz4_frame:
                return decompress_lz4(body)
            case "zstd" if zstd:
                return zstd.decompress(body)
    except (OSError, EOFError, RuntimeError, zlib.error) as failure:
        raise Refused(117, f"Cannot decompress the request's body ({encoding}): {failure}") from failure
    except Exception as failure:  # zstd's own error type exists only where zstd does
        raise Refused(117, f"Cannot decompress the request's body ({encoding}): {failure}") from failure
    raise Refused(48, f"Unknown compression method: {encoding}")


def compress(accepted: str, body: bytes) -> tuple[str, bytes]:
    """The body in the first encoding of the client's that is known here, with its name ('' is none)."""
    offered = [part.split(";")[0].strip() for part in accepted.split(",")]
    if "lz4" in offered and lz4_frame:
        return "lz4", lz4_frame.compress(body)
    if "zstd" in offered and zstd:
        return "zstd", zstd.compress(body)
    if "gzip" in offered:
        return "gzip", gzip.compress(body, 1)
    return "", body


class Handler(BaseHTTPRequestHandler):
    """One connection; every request is answered whole, so an error is never behind a 200."""

    protocol_version = "HTTP/1.1"
    server_version = "ClickHouse"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave in one piece
    engine: Engine
    users: dict[str, str]

    def log_message(self, *_args):
        pass

    def do_GET(self):
        path = urlsplit(self.path).path
        if path == "/ping" or (path == "/" and not urlsplit(self.path).query):
            self._send(200, b"Ok.\n", {"Content-Type": "text/html; charset=UTF-8"})
        elif path == "/replicas_status":
            self._send(200, b"Ok.\n", {"Content-Type": "text/plain; charset=UTF-8"})
        else:
            self._answer(b"", read_only=True)

    def do_POST(self):
        try:
            body = self._read_body()
        except (ValueError, ConnectionError, OSError):
            self.close_connection = True  # the request never arrived whole: nothing of it is executed
            return
        self._answer(body, read_only=False)

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0].strip(), 16):
                chunks.append(self._read_exactly(size))
                self._read_exactly(2)
            while self.rfile.readline().strip():
                pass
            return b"".join(chunks)
        return self._read_exactly(int(self.headers.get("Content-Length", "0")))

    def _read_exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionError("the client closed the connection inside a request")
        return data

    def _answer(self, body: bytes, read_only: bool) -> None:
        address = urlsplit(self.path)
        arguments = dict(parse_qsl(address.query, keep_blank_values=True))
        query_id = arguments.get("query_id") or self.headers.get("X-ClickHouse-Query-Id") or str(uuid.uuid4())
        head = {
            "X-ClickHouse-Server-Display-Name": "settle-testkit",
            "X-ClickHouse-Query-Id": query_id,
            "X-ClickHouse-Timezone": self.engine.timezone,
        }
        try:
            if address.path not in ("/", ""):
                self._send(404, f"There is no handle {self.path}\n".encode(), head)
                return
            self._authenticate(arguments)
            outcome, format_name = self._execute(arguments, body, read_only)
        except (Refused, StatementError) as refusal:
            self._send_error(self.engine.error(f"Code: {refusal.code}. DB::Exception: {refusal}"), head)
            return
        except EngineError as failure:
            self._send_error(failure, head)
            return
        except Exception:  # a fault of the gateway must not look like an answer of the engine
            traceback.print_exc()
            self._send(500, b"the test gateway failed; its log has the traceback\n", head)
            return
        head["X-ClickHouse-Format"] = format_name
        head["X-ClickHouse-Summary"] = json.dumps({
            "read_rows": str(outcome.read_rows),
            "read_bytes": str(outcome.read_bytes),
            "written_rows": str(outcome.written_rows),
            "written_bytes": str(outcome.written_bytes),
            "total_rows_to_read": "0",
            "result_rows": str(outcome.written_rows),
            "result_bytes": str(outcome.written_bytes),
            "elapsed_ns": str(outcome.elapsed_ns),
        })
        head["Content-Type"] = CONTENT_TYPE.get(format_name, "text/plain; charset=UTF-8")
        content = outcome.body
        if arguments.get("enable_http_compression") in ("1", "true"):
            encoding, content = compress(self.headers.get("Accept-Encoding", ""), content)
            if encoding:
                head["Content-Encoding"] = encoding
        self._send(200, content, head)

    def _authenticate(self, arguments: dict[str, str]) -> None:
        by_header = self.headers.get("X-ClickHouse-User") is not None or self.headers.get("X-ClickHouse-Key") is not None
        by_basic = self.headers.get("Authorization", "").lower().startswith("basic ")
        by_argument = "user" in arguments or "password" in arguments
        if by_header and (by_basic or by_argument):
            raise Refused(516, "Invalid authentication: it is not allowed to use X-ClickHouse HTTP headers and other authentication methods simultaneously")
        if by_header:
            user, password = self.headers.get("X-ClickHouse-User", "default"), self.headers.get("X-ClickHouse-Key", "")
        elif by_basic:
            try:
                user, _, password = base64.b64decode(self.headers["Authorization"][6:], validate=True).decode().partition(":")
            except ValueError as failure:
                raise Refused(516, "Invalid authentication: invalid Basic credentials") from failure
        else:
            user, password = arguments.get("user", "default"), arguments.get("password", "")
        known = self.users.get(user)
        if known is None or not hmac.compare_digest(known.encode(), password.encode()):
            raise Refused(516, f"{user}: Authentication failed: password is incorrect, or there is no user with such name.")

    def _execute(self, arguments: dict[str, str], body: bytes, read_only: bool):
        for framing in ("compress", "decompress"):
            if arguments.get(framing) in ("1", "true"):
                raise Refused(48, f"{framing}=1 (ClickHouse's own block framing) is not spoken by this gateway; use Content-Encoding")
        body = decompress(self.headers.get("Content-Encoding", "").strip().lower(), body)
        query = arguments.get("query", "").encode("utf-8", "surrogateescape")
        statement = split(query + b"\n" + body if query else body)
        settings = {name: value for name, value in arguments.items() if name not in PROTOCOL and not name.startswith("param_")}
        if read_only:
            settings.setdefault("readonly", "1")
        params = {name[6:]: value for name, value in arguments.items() if name.startswith("param_")}
        database = arguments.get("database") or self.headers.get("X-ClickHouse-Database", "")
        default_format = arguments.get("default_format") or self.headers.get("X-ClickHouse-Format") or "TabSeparated"
        outcome = self.engine.run(statement, database, settings, params, default_format)
        return outcome, statement.format or default_format

    def _send_error(self, failure: EngineError, head: dict[str, str]) -> None:
        status = STATUS.get(self.engine.name_of(failure.code), 500)
        head |= {"X-ClickHouse-Exception-Code": str(failure.code), "Content-Type": "text/plain; charset=UTF-8"}
        if failure.code == 194:
            head["WWW-Authenticate"] = 'Basic realm="ClickHouse server HTTP API"'
        self._send(status, failure.text.encode("utf-8", "surrogateescape") + b"\n", head)

    def _send(self, status: int, body: bytes, head: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in head.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client left; what was executed stays executed


class Server(ThreadingHTTPServer):
    """Threads end with the process; the backlog is deep enough for a suite's start."""

    daemon_threads = True
    request_queue_size = 256


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", required=True, help="folder of the database")
    arguments.add_argument("--host", default="127.0.0.1")
    arguments.add_argument("--port", type=int, default=0, help="0 takes a free one")
    arguments.add_argument("--port-file", help="the port is written here once requests are answered")
    arguments.add_argument("--user", default="default")
    arguments.add_argument("--password", default=os.environ.get("CLICKHOUSE_GATEWAY_PASSWORD", ""))
    given = arguments.parse_args()

    Handler.engine = Engine(given.data)
    Handler.users = {given.user: given.password}
    server = Server((given.host, given.port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    port = server.server_address[1]
    if given.port_file:
        with open(given.port_file + ".new", "w") as file:
            file.write(f"{port}\n")
        os.replace(given.port_file + ".new", given.port_file)
    print(f"ClickHouse engine {Handler.engine.version} on http://{given.host}:{port}", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
