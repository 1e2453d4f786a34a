"""The ClickHouse engine as a library: one connection a request, so no setting outlives the request that sent it."""

import os
import re
import tempfile
import threading
import time
from dataclasses import dataclass

from chdb import session
from chdb.state import sqlitelike  # noqa: F401  (loads the engine before the port is announced)

from statement import Statement

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_CODE = re.compile(r"Code: (\d+)\. DB::Exception: ")
_NESTED = re.compile(r"\A(?:[A-Z][a-z ]+ failed: )?(?:Code: (\d+)\. DB::Exception: )+")
# Where the data of an insert waits to be read; None is the system's usual place.
_RAM_DISK = "/dev/shm" if os.path.isdir("/dev/shm") else None
# What the engine sets for its embedded use and the server does not.
_AS_SERVER = "SET implicit_select = 0, allow_introspection_functions = 0"


class EngineError(Exception):
    """An error as the engine words it; `code` is ClickHouse's error number."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass
class Outcome:
    body: bytes
    read_rows: int
    read_bytes: int
    written_rows: int
    written_bytes: int
    elapsed_ns: int


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


class Engine:
    """The engine over one data folder."""

    def __init__(self, folder: str):
        self._folder = folder
        self._keeper = session.Session(folder)  # keeps the engine loaded between requests
        self._opening = threading.Lock()
        self.version = self._text("SELECT version()")
        self.timezone = self._text("SELECT timezone()")
        names = self._text("SELECT number, errorCodeToName(toUInt32(number)) FROM numbers(1500)")
        self._names = {int(code): name for code, name in (line.split("\t") for line in names.split("\n"))}

    def _text(self, sql: str) -> str:
        return self._keeper.query(sql, "TSV").bytes().decode().rstrip("\n")

    def name_of(self, code: int) -> str:
        """The symbol of an error number, e.g. 60 is UNKNOWN_TABLE."""
        return self._names.get(code, "")

    def error(self, text: str) -> EngineError:
        """Brings the library's wordings of one error to the server's: a single prefix, the version at the end."""
        found = _CODE.search(text)
        code = int(found.group(1)) if found else 1002
        text = _NESTED.sub("", text.strip())
        symbol = f"({self.name_of(code)})"
        for tail in (symbol, f"(version {self.version})", symbol):
            text = text.removesuffix(tail).rstrip()
        return EngineError(code, f"Code: {code}. DB::Exception: {text} {symbol} (version {self.version})")

    def run(self, statement: Statement, database: str, settings: dict[str, str], params: dict[str, str], default_format: str) -> Outcome:
        """Runs one statement in a connection of its own. Raises EngineError."""
        started = time.monotonic_ns()
        with self._opening:
            connection = session.Session(self._folder)
        try:
            self._prepare(connection, database, settings, params)
            if statement.data is not None:
                return self._insert(connection, statement, started)
            result = connection.query(statement.sql.decode("utf-8", "surrogateescape"), default_format)
            return Outcome(
                result.bytes(),
                result.storage_rows_read() if statement.verb != "INSERT" else 0,
                result.storage_bytes_read() if statement.verb != "INSERT" else 0,
                result.rows_written(),
                result.bytes_written(),
                time.monotonic_ns() - started,
            )
        except EngineError:
            raise
        except Exception as failure:  # the library raises several types for the engine's one
            raise self.error(str(failure)) from failure
        finally:
            with self._opening:
                connection.close()

    def _prepare(self, connection, database: str, settings: dict[str, str], params: dict[str, str]) -> None:
        connection.query(_AS_SERVER)
        if database:
            connection.query(f"USE {_quoted(database)}")
        assignments = {f"param_{name}": value for name, value in params.items()}
        assignments.update(settings)
        if "readonly" in assignments:  # last: nothing can be set behind it
            assignments["readonly"] = assignments.pop("readonly")
        for name, value in assignments.items():
            if not _NAME.match(name):
                raise self.error(f"Code: 115. DB::Exception: Unknown setting '{name}'")
            connection.query(f"SET {name} = {_literal(value)}")

    def _insert(self, connection, statement: Statement, started: int) -> Outcome:
        """Reads the data as a file, through the engine's usual INSERT pipeline. The library's own insert stream is not it: there
        constraints, limits of a block and materialized views do nothing, and rows that they would refuse are lost in silence."""
        if not len(statement.data):
            return self._insert_nothing(connection, statement, started)
        with tempfile.NamedTemporaryFile(dir=_RAM_DISK, prefix="settle-insert-") as file:
            file.write(statement.data)
            file.flush()
            sql = f"{statement.sql.decode('utf-8', 'surrogateescape')} FROM INFILE {_literal(file.name)} COMPRESSION 'none'"
            sql += f" {statement.settings.decode('utf-8', 'surrogateescape')} FORMAT {statement.format}"
            done = connection.query(sql, "TabSeparated")
        return Outcome(b"", done.rows_written(), done.bytes_written(), done.rows_written(), done.bytes_written(), time.monotonic_ns() - started)

    def _insert_nothing(self, connection, statement: Statement, started: int) -> Outcome:
        """An INSERT without data writes nothing, but its table, columns and format are checked."""
        sql = (statement.sql + b" " + statement.settings).decode("utf-8", "surrogateescape")
        stream = connection.send_insert(sql, statement.format)
        stream.cancel()
        return Outcome(b"", 0, 0, 0, 0, time.monotonic_ns() - started)
