"""Checks the gateway from outside: with an independent client (`clickhouse-connect`) and with raw HTTP, as Settle speaks it.

Reads SETTLE_TEST_CLICKHOUSE_URL, _USER and _PASSWORD, so the same checks run against a real server too.
"""

import base64
import http.client
import json
import os
import sys
import unittest
import uuid
from datetime import datetime, timezone
from decimal import Decimal
from io import BytesIO
from urllib.parse import urlencode, urlsplit

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.exceptions import DatabaseError

ADDRESS = urlsplit(os.environ["SETTLE_TEST_CLICKHOUSE_URL"])
USER = os.environ.get("SETTLE_TEST_CLICKHOUSE_USER", "default")
PASSWORD = os.environ.get("SETTLE_TEST_CLICKHOUSE_PASSWORD", "")
IN_HEADERS = {"X-ClickHouse-User": USER, "X-ClickHouse-Key": PASSWORD}


def send(body=b"", headers=IN_HEADERS, method="POST", path="/", encode_chunked=False, **arguments):
    """One request; gives status, headers and body."""
    connection = http.client.HTTPConnection(ADDRESS.hostname, ADDRESS.port, timeout=60)
    target = path + ("?" + urlencode(arguments) if arguments else "")
    body = body.encode() if isinstance(body, str) else body
    if encode_chunked:
        headers = headers | {"Transfer-Encoding": "chunked"}
        connection.request(method, target, iter([body[:7], body[7:]]), headers, encode_chunked=True)
    else:
        connection.request(method, target, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


def arrow_stream(table):
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


class WithDatabase(unittest.TestCase):
    def setUp(self):
        self.database = f"self_check_{uuid.uuid4().hex}"
        self.run_sql(f"CREATE DATABASE {self.database}", database="")

    def tearDown(self):
        self.run_sql(f"DROP DATABASE {self.database}", database="")

    def run_sql(self, sql, **arguments):
        status, _, content = send(sql, **{"database": self.database, "wait_end_of_query": "1"} | arguments)
        self.assertEqual(status, 200, content)
        return content.decode()

    def assert_error(self, answer, status, code):
        self.assertEqual((answer[0], answer[1]["X-ClickHouse-Exception-Code"]), (status, str(code)), answer[2])
        self.assertTrue(answer[2].startswith(f"Code: {code}. DB::Exception: ".encode()), answer[2])
        self.assertEqual(answer[2].count(b"DB::Exception"), 1, answer[2])


class IndependentClient(WithDatabase):
    def connect(self, **options):
        return clickhouse_connect.get_client(
            host=ADDRESS.hostname, port=ADDRESS.port, username=USER, password=PASSWORD, database=self.database, **options
        )

    def test_rows_of_every_common_type_come_back_as_they_were_sent(self):
        rows = [
            [1, -5, 2**127, "naïve\t\n'\\", None, Decimal("12345678901234.5678"), datetime(1999, 12, 31, 23, 59, 59, 123456, timezone.utc), ["a", ""]],
            [2**64 - 1, 2**63 - 1, 0, "", "x", Decimal("-0.0001"), datetime(2100, 1, 1, tzinfo=timezone.utc), []],
        ]
        columns = ["id", "i", "v", "s", "n", "d", "t", "a"]
        for compression in (False, "lz4", "zstd", "gzip"):
            with self.subTest(compression=compression):
                client = self.connect(compress=compression)
                client.command("DROP TABLE IF EXISTS t")
                client.command(
                    "CREATE TABLE t (id UInt64, i Int64, v UInt128, s String, n Nullable(String), d Decimal(18, 4), "
                    "t DateTime64(6, 'UTC'), a Array(String)) ENGINE = MergeTree ORDER BY id"
                )
                summary = client.insert("t", rows, column_names=columns)
                self.assertEqual(summary.written_rows, 2)
                read = client.query("SELECT * FROM t ORDER BY id", tz_mode="aware").result_rows
                self.assertEqual([list(row) for row in read], rows)

    def test_large_inserts_of_many_blocks_are_complete(self):
        for compression in (False, "lz4", "zstd", "gzip"):
            with self.subTest(compression=compression):
                client = self.connect(compress=compression)
                client.command("CREATE OR REPLACE TABLE t (id UInt64, s String) ENGINE = MergeTree ORDER BY id")
                client.insert("t", [[i, f"value {i}"] for i in range(200_000)], column_names=["id", "s"])
                read = client.query("SELECT count(), sum(id), uniqExact(s) FROM t").first_row
                self.assertEqual(read, (200_000, 19_999_900_000, 200_000))

    def test_parameters_settings_and_errors_reach_the_client(self):
        client = self.connect()
        self.assertEqual(client.query("SELECT {x:String}", parameters={"x": "a'b\tc"}).first_row, ("a'b\tc",))
        self.assertEqual(client.query("SELECT getSetting('max_threads')", settings={"max_threads": 1}).first_row, (1,))
        with self.assertRaisesRegex(DatabaseError, "UNKNOWN_TABLE"):
            client.query("SELECT * FROM nowhere")


class RawHttp(WithDatabase):
    TABLE = (
        "CREATE TABLE t (id UInt64, s Nullable(String), _version UInt128, _is_deleted UInt8) "
        "ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id"
    )

    def insert(self, columns, **arguments):
        table = pa.table(columns)
        query = f"INSERT INTO t ({', '.join(table.column_names)}) FORMAT ArrowStream"
        settings = {"async_insert": "0", "insert_deduplicate": "0", "input_format_null_as_default": "0", "wait_end_of_query": "1"}
        return send(arrow_stream(table), **{"query": query, "database": self.database} | settings | arguments)

    def versioned(self, *rows):
        return {
            "id": pa.array([row[0] for row in rows], pa.uint64()),
            "s": pa.array([row[1] for row in rows], pa.string()),
            "_version": pa.array([row[2].to_bytes(16, "little") for row in rows], pa.binary(16)),
            "_is_deleted": pa.array([row[3] for row in rows], pa.uint8()),
        }

    def test_arrow_versions_are_128_bit_numbers_and_the_greatest_wins(self):
        self.run_sql(self.TABLE)
        high, low = (3 << 64) + 7, (2 << 64) + 2**62
        status, headers, content = self.insert(self.versioned((1, "new", high, 0), (2, "gone", low, 0), (3, None, low, 0)))
        self.assertEqual((status, content), (200, b""))
        self.assertEqual(json.loads(headers["X-ClickHouse-Summary"])["written_rows"], "3")
        self.insert(self.versioned((1, "old", low, 0), (2, None, high, 1)))
        self.assertEqual(self.run_sql("SELECT id, s, _version FROM t FINAL ORDER BY id"), f"1\tnew\t{high}\n3\t\\N\t{low}\n")
        self.assertEqual(self.run_sql("SELECT count() FROM t"), "5\n")
        self.assertEqual(self.run_sql(f"SELECT count() FROM t WHERE _version = toUInt128('{high}')"), "2\n")

    def test_a_body_that_is_cut_off_is_refused_whole(self):
        self.run_sql(self.TABLE)
        whole = arrow_stream(pa.table(self.versioned(*[(i, "x", i, 0) for i in range(1000)])))
        for kept in (len(whole) - 1, len(whole) // 2):
            answer = send(whole[:kept], query="INSERT INTO t FORMAT ArrowStream", database=self.database)
            self.assert_error(answer, 500, 33)
        self.assertEqual(self.run_sql("SELECT count() FROM t"), "0\n")

    def test_a_refused_block_leaves_nothing_behind(self):
        self.run_sql(self.TABLE)
        answer = self.insert({"id": pa.array([1, None], pa.uint64())})
        self.assert_error(answer, 500, 349)
        self.assertEqual(self.run_sql("SELECT count() FROM t"), "0\n")

    def test_errors_have_the_servers_codes_and_statuses(self):
        self.run_sql(self.TABLE)
        in_database = {"database": self.database}
        self.assert_error(send("SELECT * FROM nowhere", **in_database), 404, 60)
        self.assert_error(send("INSERT INTO nowhere FORMAT ArrowStream", **in_database), 404, 60)
        self.assert_error(send("SELEKT 1"), 400, 62)
        self.assert_error(send("SELECT 1; SELECT 2"), 400, 62)
        self.assert_error(send("SELECT 1", no_such_setting="1"), 404, 115)
        self.assert_error(send("SELECT 1", database="no_such_database"), 404, 81)
        self.assert_error(send("SELECT nothing FROM t", **in_database), 404, 47)
        self.assert_error(self.insert({"id": pa.array([[1]])}), 500, 43)
        self.assert_error(self.insert({"_version": pa.array([b"12345678"], pa.binary(8))}), 400, 117)
        self.assert_error(send("INSERT INTO t (id, other) FORMAT JSONEachRow {}", **in_database), 500, 16)
        self.assert_error(send('INSERT INTO t FORMAT JSONEachRow {"id": "x"}', **in_database), 400, 27)
        self.assert_error(self.insert({"id": pa.array(["x"])}), 400, 6)
        self.assert_error(send(b"not arrow", query="INSERT INTO t FORMAT ArrowStream", **in_database), 400, 117)
        self.assert_error(send(method="GET", query="DROP TABLE t", **in_database), 500, 164)

    def test_a_wrong_password_is_refused_by_every_way_to_give_it(self):
        basic = base64.b64encode(f"{USER}:wrong".encode()).decode()
        for answer in (
            send("SELECT 1", headers={"X-ClickHouse-User": USER, "X-ClickHouse-Key": "wrong"}),
            send("SELECT 1", headers={"Authorization": f"Basic {basic}"}),
            send("SELECT 1", headers={}, user=USER, password="wrong"),
            send("SELECT 1", headers={"X-ClickHouse-User": "nobody", "X-ClickHouse-Key": ""}),
        ):
            self.assert_error(answer, 403, 516)
            self.assertIn(b"Authentication failed", answer[2])

    def test_the_right_password_is_taken_by_every_way_to_give_it(self):
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        for answer in (
            send("SELECT 1"),
            send("SELECT 1", headers={"Authorization": f"Basic {basic}"}),
            send("SELECT 1", headers={}, user=USER, password=PASSWORD),
        ):
            self.assertEqual((answer[0], answer[2]), (200, b"1\n"))

    def test_settings_last_one_request(self):
        self.assertEqual(self.run_sql("SELECT getSetting('max_block_size')", max_block_size="1234"), "1234\n")
        self.assertNotEqual(self.run_sql("SELECT getSetting('max_block_size')"), "1234\n")

    def test_formats_parameters_and_ids(self):
        status, headers, content = send("SELECT {x:UInt8} + 1 AS n", param_x="41", default_format="JSONEachRow", query_id="my-id")
        self.assertEqual((status, content, headers["X-ClickHouse-Query-Id"]), (200, b'{"n":42}\n', "my-id"))
        self.assertEqual(send("SELECT 1 AS n FORMAT JSONEachRow")[1]["X-ClickHouse-Format"], "JSONEachRow")
        self.assertEqual(send("SELECT 'a;b' -- ;\n;")[2], b"a;b\n")

    def test_inserts_take_their_data_from_wherever_it_is(self):
        self.run_sql("CREATE TABLE t (id UInt64, s String) ENGINE = MergeTree ORDER BY id")
        self.run_sql("INSERT INTO t VALUES (1, 'format; values'), (2, 'b')")
        self.run_sql("INSERT INTO t (id, s) FORMAT TSV\n3\tc\n")
        self.run_sql("4\td\n", query="INSERT INTO t FORMAT TSV")
        self.run_sql("(5, 'e')", query="INSERT INTO t VALUES")
        self.run_sql("INSERT INTO t SELECT 6, 'FORMAT TSV'")
        self.run_sql('{"id": 7, "s": "g"}', query="INSERT INTO t SETTINGS max_threads = 1 FORMAT JSONEachRow", encode_chunked=True)
        self.run_sql("", query="INSERT INTO t FORMAT TSV")
        self.assertEqual(self.run_sql("SELECT groupArray(id) FROM (SELECT id FROM t ORDER BY id)"), "[1,2,3,4,5,6,7]\n")

    def test_ping_needs_no_password(self):
        status, _, content = send(headers={}, method="GET", path="/ping")
        self.assertEqual((status, content), (200, b"Ok.\n"))


if __name__ == "__main__":
    print(f"checking {ADDRESS.geturl()}", file=sys.stderr)
    unittest.main(verbosity=1)
