//! Answers that are refusals, and answers that never come.

use settle_core::sink::{Effect, FailureKind, Sink};
use settle_engine::sinks::clickhouse::ClickHouse;
use settle_testkit::proxy::{Fault, Plan, Proxy};

use crate::recorder::Recorder;
use crate::records::{Log, batch, event};
use crate::stage::{apply, creating, declaring, open, parts, secret, staged};

const ID_V: &[(&str, &str)] = &[("id", "Int64"), ("v", "Nullable(String)")];

fn answer(status: u16, code: Option<i32>, body: &str) -> Fault {
    Fault::Answer { status, code, body: body.to_owned() }
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_never_shown() {
    staged(async |stage| {
        let mut config = stage.config();
        config.password = Some(secret("not-the-password"));
        let mut sink = ClickHouse::new(config, creating()).unwrap();
        let error = open(&mut sink).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (FailureKind::Denied, Effect::None));
        let shown = error.to_string();
        assert!(shown.starts_with("connecting to ClickHouse: the server refused: code 516: "), "{shown}");
        assert!(shown.ends_with("(AUTHENTICATION_FAILED); check `user` and `password` in [sink]"), "{shown}");
        assert!(!format!("{error:?}{shown}").contains("not-the-password"));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable_without_effect() {
    staged(async |stage| {
        let (proxy, address) = Proxy::before_clickhouse().await;
        proxy.refuse().await;
        let mut sink = ClickHouse::new(stage.config_at(&address), creating()).unwrap();
        let error = open(&mut sink).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (FailureKind::Unreachable, Effect::None));
        assert_eq!(error.to_string(), format!("connecting to ClickHouse: no connection to {}", proxy.url()));
        proxy.pass();
        open(&mut sink).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_lost_reply_leaves_the_effect_unknown_and_the_same_bytes_are_sent_again() {
    staged(async |stage| {
        let recorder = Recorder::before(&stage.database.address().url).await;
        let mut address = stage.database.address().clone();
        address.url = recorder.url();
        let mut log = Log::default();
        let events: Vec<_> = (0..500u64)
            .map(|id| match id % 3 {
                0 => event("d", 100 + id, &format!(r#"{{"id":{id}}}"#), ""),
                1 => event("c", 100 + id, &format!(r#"{{"id":{id}}}"#), &format!(r#"{{"id":{id},"v":"x{id}"}}"#)),
                _ => event("c", 100 + id, &format!(r#"{{"id":{id}}}"#), &format!(r#"{{"v":null,"id":{id},"n":{id}}}"#)),
            })
            .collect();
        let target = declaring(&[("id", "Int64"), ("v", "Nullable(String)"), ("n", "Nullable(Int64)")]);
        let mut sink = stage.sink_at(&address, target.clone()).await;
        // What fills the table is recorded with its first rows.
        apply(&mut sink, &log.batch(&[event("d", 90, r#"{"id":9999}"#, "")])).await.unwrap();
        let batch = log.batch(&events);
        let mut sent = Vec::new();
        recorder.take_inserts();
        // Lost behind the first, the second, the third block; then a new process; then it arrives.
        for lose in [1, 2, 3] {
            recorder.lose_insert(lose);
            let error = apply(&mut sink, &batch).await.unwrap_err();
            assert_eq!((error.kind, error.effect), (FailureKind::Unreachable, Effect::Unknown), "{error}");
            assert_eq!(
                stage.message(&error),
                format!(
                    "inserting into `shop`.`t`: the connection to {} broke before the answer was complete",
                    recorder.url()
                )
            );
            sent.push(recorder.take_inserts());
        }
        let mut restarted = stage.sink_at(&address, target).await;
        recorder.take_inserts();
        apply(&mut restarted, &batch).await.unwrap();
        let whole = recorder.take_inserts();
        assert_eq!(whole.len(), 3, "deletes, rows with two columns, rows with one");
        for (lose, attempt) in sent.iter().enumerate() {
            assert_eq!(attempt.len(), lose + 1);
            assert!(attempt.iter().zip(&whole).all(|(again, first)| again == first), "attempt {lose} sent other bytes");
        }
        assert_eq!(stage.rows("SELECT count(), countIf(v IS NULL), sum(n) FROM t_current").await, ["333\t166\t41417"]);
        assert_eq!(stage.rows("SELECT count() FROM t FINAL").await, ["333"]);
    })
    .await;
}

#[tokio::test]
async fn the_settings_that_the_promises_need_are_sent_with_every_insert() {
    staged(async |stage| {
        let recorder = Recorder::before(&stage.database.address().url).await;
        let mut address = stage.database.address().clone();
        address.url = recorder.url();
        let mut config = stage.config_at(&address);
        config.settings.insert("max_insert_threads".into(), "1".into());
        let mut sink = ClickHouse::new(config, declaring(ID_V)).unwrap();
        open(&mut sink).await.unwrap();
        apply(&mut sink, &batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)])).await.unwrap();
        let addresses = recorder.insert_addresses();
        assert_eq!(
            addresses.len(),
            5,
            "the scheme, where the group begins, the table's source, what fills it, and its rows"
        );
        for sent in addresses {
            for setting in [
                "async_insert=0",
                "wait_end_of_query=1",
                "insert_deduplicate=0",
                "input_format_null_as_default=0",
                "max_insert_threads=1",
            ] {
                assert!(sent.contains(setting), "{setting} in {sent}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn refusals_of_an_insert_by_their_kind() {
    use Effect::{None as Nothing, Unknown};
    use FailureKind::{Contract, NotWritable, Overloaded, Row, Unreachable};
    let text = |code: i32, what: &str, symbol: &str| {
        (Some(code), format!("Code: {code}. DB::Exception: {what}. ({symbol}) (version 26.9.2.1)\n"))
    };
    let cases = [
        (500, text(252, "Too many parts (3001)", "TOO_MANY_PARTS"), Overloaded, Nothing),
        (500, text(241, "Memory limit exceeded", "MEMORY_LIMIT_EXCEEDED"), Overloaded, Unknown),
        (500, text(242, "Table is in readonly mode", "TABLE_IS_READ_ONLY"), NotWritable, Nothing),
        (500, text(243, "Cannot reserve 1.00 MiB", "NOT_ENOUGH_SPACE"), NotWritable, Unknown),
        (408, text(159, "Timeout exceeded", "TIMEOUT_EXCEEDED"), Unreachable, Unknown),
        (500, text(999, "Session expired", "KEEPER_EXCEPTION"), Unreachable, Unknown),
        (400, text(53, "Type mismatch", "TYPE_MISMATCH"), Row, Nothing),
        (500, text(49, "Bad cast", "LOGICAL_ERROR"), Contract, Unknown),
        (429, (None, "slow down".into()), Overloaded, Nothing),
        (503, (None, "no".into()), Overloaded, Unknown),
        (502, (None, "no".into()), Unreachable, Unknown),
        // Behind a status 200: with the code in the header, and in the body alone.
        (200, text(241, "Memory limit exceeded", "MEMORY_LIMIT_EXCEEDED"), Overloaded, Unknown),
        (200, (None, text(241, "Memory limit exceeded", "MEMORY_LIMIT_EXCEEDED").1), Overloaded, Unknown),
        (
            200,
            (
                None,
                format!(
                    "__exception__\r\nabcdefgh\r\n{}\r\n75 abcdefgh\r\n__exception__\r\n",
                    text(53, "Type mismatch", "TYPE_MISMATCH").1
                ),
            ),
            Row,
            Unknown,
        ),
        (200, (None, "something else".into()), Contract, Unknown),
    ];
    staged(async |stage| {
        let (proxy, address) = Proxy::before_clickhouse().await;
        let mut log = Log::default();
        let mut sink = stage.sink_at(&address, declaring(ID_V)).await;
        apply(&mut sink, &log.batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)])).await.unwrap();
        let later = log.batch(&[event("c", 110, r#"{"id":2}"#, r#"{"id":2,"v":"b"}"#)]);
        for (status, (code, body), kind, effect) in cases {
            proxy.plan(Plan::new(answer(status, code, &body)).containing("INSERT").times(1));
            let error = apply(&mut sink, &later).await.unwrap_err();
            assert_eq!((error.kind, error.effect), (kind, effect), "{status} {code:?}: {error}");
            assert_eq!(stage.rows("SELECT count() FROM t").await, ["1"]);
        }
        proxy.pass();
        apply(&mut sink, &later).await.unwrap();
        assert_eq!(stage.rows("SELECT id FROM t_current ORDER BY id").await, ["1", "2"]);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_after_the_time_out() {
    staged(async |stage| {
        let (proxy, address) = Proxy::before_clickhouse().await;
        let mut config = stage.config_at(&address);
        config.request_timeout_ms = 300;
        let mut sink = ClickHouse::new(config, declaring(ID_V)).unwrap();
        proxy.plan(Plan::new(Fault::Hang));
        let error = open(&mut sink).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (FailureKind::Unreachable, Effect::Unknown));
        assert_eq!(
            error.to_string(),
            format!("connecting to ClickHouse: no answer from {} within 300 ms", proxy.url())
        );
    })
    .await;
}

#[tokio::test]
async fn a_constraint_of_the_table_is_the_rows_fault_and_its_values_are_not_shown() {
    staged(async |stage| {
        stage
            .run(
                "CREATE TABLE t (id Int64, v Nullable(String), CONSTRAINT small CHECK id < 10, _op LowCardinality(String), \
                 _source_ts_ms Nullable(Int64), _is_deleted UInt8, _version UInt128) \
                 ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id",
            )
            .await;
        let error = stage
            .apply(creating(), &batch(&[event("c", 100, r#"{"id":4711}"#, r#"{"id":4711,"v":"secret"}"#)]))
            .await
            .unwrap_err();
        assert_eq!(error.kind, FailureKind::Constraint);
        assert_eq!(
            stage.message(&error),
            "inserting into `shop`.`t`: record srv.public.t:0:0: the server refused: code 469: VIOLATED_CONSTRAINT (Constraint `small`)"
        );
        assert!(!format!("{}", error.source.unwrap()).contains("4711"));
    })
    .await;
}

#[tokio::test]
async fn a_batch_before_open_is_a_bug() {
    staged(async |stage| {
        let mut sink = ClickHouse::new(stage.config(), creating()).unwrap();
        let one = batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1}"#)]);
        assert_eq!(sink.apply(&one).await.unwrap_err().kind, FailureKind::Bug);
        assert_eq!(sink.open(&parts()).await.unwrap().floors, []);
    })
    .await;
}
