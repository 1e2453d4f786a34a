//! Cases about a destination that fails: each with the fault as it was reported, between the real
//! binary and the real engine.

use serde_json::json;
use settle_testkit::proxy::{Fault, Plan, Proxy};

use super::case::{Case, Entry};
use super::poison::{past_poison, stops};
use super::server::Lock;
use super::stand::{Sink, Stand, same_rows};
use super::verdict::{Outcome, Verdict};
use super::walk::target;
use crate::child::{Running, until};

/// Marks the inserts of rows among the requests.
const ROWS: &str = "ArrowStream";

/// The case's first record, numbered anew: ids from 0 on, rising positions.
pub fn numbered(case: &Case, count: i64, partition: i32, first: i64) -> Vec<Entry> {
    let template = case.entries()[0].clone();
    let record = |n: i64| {
        let id = first + n;
        let lsn = 100 + 10 * id;
        let mut envelope = template.envelope().expect("a change event");
        envelope["after"] = json!({"id": id, "v": format!("r{id}")});
        envelope["source"]["lsn"] = lsn.into();
        envelope["source"]["sequence"] = format!("[\"{}\",\"{lsn}\"]", lsn - 8).into();
        Entry {
            partition,
            offset: n,
            key: Some(json!({"id": id}).to_string().into_bytes()),
            value: Some(envelope.to_string().into_bytes()),
            ..template.clone()
        }
    };
    (0..count).map(record).collect()
}

/// As many rows as that, each as it was made by [`numbered`].
pub fn numbered_rows(stand: &Stand, case: &Case, count: usize) -> Result<(), String> {
    let rows: Vec<_> = (0..count).map(|id| json!({"id": id, "v": format!("r{id}")})).collect();
    same_rows(&rows.into(), &stand.table(target(case)), &case.table.key, true)
}

fn answer(code: i32, text: &str) -> Plan {
    let body = format!("Code: {code}. DB::Exception: {text}");
    Plan::new(Fault::Answer { status: 500, code: Some(code), body }).containing(ROWS)
}

/// B85: the same block again and again until it is taken.
pub fn too_many_parts(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    let (proxy, address) = stand.runtime.block_on(Proxy::before_clickhouse());
    stand.reach_through(Some(&address.url));
    stand.configure();
    stand.feed(case.entries());
    let text = "Too many parts (300 with average size of 1.00 KiB). Merges are processing significantly slower than \
                inserts. (TOO_MANY_PARTS)";
    proxy.plan(answer(252, text));
    let run = Running::start(&stand.stage, &["--until-end"]);
    stand.runtime.block_on(proxy.wait_until(|counters| counters.answered >= 5));
    if stand.committed("srv.public.t", 0).is_some() {
        return Err("an offset moved though nothing was written".to_owned());
    }
    proxy.pass();
    let (status, report) = run.wait();
    let written = stand.rows("SELECT count() AS n FROM t")[0]["n"].clone();
    if !status.success() || report.applied != 1 || written.as_deref() != Some("1") {
        return Err(format!("{status}, {report:?}, {written:?} rows written"));
    }
    numbered_rows(&stand, case, 1)?;
    Ok(Verdict::Pass(""))
}

/// B86: the position is written with the rows, or not at all.
pub fn state_with_rows(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.configure();
    stand.feed(case.entries());
    let mut held = None;
    match sink {
        Sink::Sqlite => {
            stand.settings.batch = "max_rows = 1".to_owned();
            stand.configure();
            stand.run(&["--max-messages", "1"]);
            // The write of the position fails after the rows were written: both must go.
            stand.sql(
                "CREATE TRIGGER torn BEFORE UPDATE ON settle_positions BEGIN SELECT RAISE(ABORT, 'torn'); END; \
                 CREATE TRIGGER torn2 BEFORE INSERT ON settle_positions BEGIN SELECT RAISE(ABORT, 'torn'); END",
            )?;
            let ran = stand.run(&["--until-end"]);
            if ran.code == 0 || stand.table("t").len() != 1 || stand.committed("srv.public.t", 0) != Some(1) {
                return Err(format!("exit {}, rows {:?}", ran.code, stand.table("t")));
            }
            stand.sql("DROP TRIGGER torn; DROP TRIGGER torn2")?;
        }
        Sink::Postgres | Sink::MySql => {
            stand.settings.batch = "max_rows = 1".to_owned();
            stand.configure();
            stand.run(&["--max-messages", "1"]);
            torn(&stand)?;
            let lock = killed_in_a_transaction(&stand)?;
            go_on_behind(&stand, lock)?;
        }
        Sink::ClickHouse => held = Some(killed_in_a_write(&mut stand)?),
    }
    stand.run_to_end()?;
    numbered_rows(&stand, case, 2)?;
    late_write_changes_nothing(&stand, case, held, 2)?;
    Ok(Verdict::Pass(""))
}

/// The write of the position fails: neither it nor the rows beside it may stay.
fn torn(stand: &Stand) -> Result<(), String> {
    let (make, drop) = match stand.sink {
        Sink::Postgres => (
            "CREATE FUNCTION torn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'torn'; END $$; \
             CREATE TRIGGER torn BEFORE UPDATE ON settle_positions FOR EACH ROW \
             WHEN (NEW.next_offset <> OLD.next_offset) EXECUTE FUNCTION torn()",
            "DROP TRIGGER torn ON settle_positions",
        ),
        _ => (
            "CREATE TRIGGER torn BEFORE UPDATE ON settle_positions FOR EACH ROW \
             IF NEW.next_offset <> OLD.next_offset THEN SIGNAL SQLSTATE '45000'; END IF",
            "DROP TRIGGER torn",
        ),
    };
    stand.sql(make)?;
    let ran = stand.run(&["--until-end"]);
    if ran.code == 0 || stand.table("t").len() != 1 || stand.committed("srv.public.t", 0) != Some(1) {
        return Err(format!("exit {}, rows {:?}", ran.code, stand.table("t")));
    }
    stand.sql(drop)
}

/// Kills a run while its write waits in the server for another session. The server does not know yet
/// that nobody waits for the answer: it goes on with that write when it may.
fn killed_in_a_transaction(stand: &Stand) -> Result<Lock, String> {
    let before = stand.committed("srv.public.t", 0);
    let server = stand.server();
    let lock = stand.runtime.block_on(server.lock("t"));
    let run = Running::start(&stand.stage, &["--until-end"]);
    stand.runtime.block_on(until("a write that waits", async || server.waiting().await, |waiting| *waiting >= 1));
    run.kill();
    if stand.committed("srv.public.t", 0) != before {
        return Err("an offset moved before its rows were durable".to_owned());
    }
    Ok(lock)
}

/// The next run waits until the server has ended what the killed one left.
fn go_on_behind(stand: &Stand, lock: Lock) -> Result<(), String> {
    let server = stand.server();
    let next = Running::start(&stand.stage, &["--until-end"]);
    stand.runtime.block_on(until("both wait", async || server.waiting().await, |waiting| *waiting >= 2));
    stand.runtime.block_on(lock.release());
    ended(next)
}

/// Kills a run while ClickHouse has not answered its write; the next one reaches it directly.
/// What the proxy holds is the write of a process that is dead: it arrives when it is let through.
fn killed_in_a_write(stand: &mut Stand) -> Result<Proxy, String> {
    killed_in(ROWS, stand)
}

/// Kills a run while ClickHouse has not answered a request that contains `text`.
fn killed_in(text: &str, stand: &mut Stand) -> Result<Proxy, String> {
    let runtime = stand.runtime.handle().clone();
    let _inside = runtime.enter();
    let (proxy, address) = runtime.block_on(Proxy::before_clickhouse());
    let before = stand.committed("srv.public.t", 0);
    stand.reach_through(Some(&address.url));
    proxy.plan(Plan::new(Fault::Hang).containing(text));
    let run = Running::start(&stand.stage, &["--until-end"]);
    runtime.block_on(proxy.wait_until(|counters| counters.hung >= 1));
    run.kill();
    stand.reach_through(None);
    if stand.committed("srv.public.t", 0) != before {
        return Err("an offset moved before its rows were durable".to_owned());
    }
    Ok(proxy)
}

fn late_write_changes_nothing(stand: &Stand, case: &Case, held: Option<Proxy>, rows: usize) -> Result<(), String> {
    let Some(proxy) = held else { return Ok(()) };
    let _inside = stand.runtime.enter();
    let before = proxy.counters().passed;
    proxy.pass();
    stand.runtime.block_on(proxy.wait_until(|counters| counters.passed > before));
    numbered_rows(stand, case, rows).map_err(|why| format!("after the late write: {why}"))
}

/// B25: the DELETE of a truncate arrives when the restarted process has long gone on.
pub fn late_truncate(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    let [before, truncate, after] = <[Entry; 3]>::try_from(case.entries()).map_err(|_| "not three records")?;
    stand.configure();
    stand.feed([before]);
    stand.run_to_end()?;
    stand.feed([truncate]);
    if sink == Sink::Postgres {
        let lock = killed_in_a_transaction(&stand)?;
        if stand.table("t").len() != 1 {
            return Err(format!("half of a truncate is seen: {:?}", stand.table("t")));
        }
        stand.feed([after]);
        go_on_behind(&stand, lock)?;
        same_rows(&case.expect["rows"], &stand.table("t"), &case.table.key, true)?;
        return Ok(Verdict::Pass("the next run waits until the server has ended the transaction of the dead one"));
    }
    let held = killed_in("ALTER TABLE", &mut stand)?;
    if !stand.table("t").is_empty() {
        return Err(format!("the view shows emptied rows: {:?}", stand.table("t")));
    }
    stand.feed([after]);
    stand.run_to_end()?;
    let has_row = |when: &str| -> Result<(), String> {
        let found = stand.rows("SELECT id, v FROM t FINAL");
        for rows in [stand.table("t"), found] {
            same_rows(&case.expect["rows"], &rows, &case.table.key, true).map_err(|why| format!("{when}: {why}"))?;
        }
        Ok(())
    };
    has_row("before the late DELETE")?;
    let _inside = stand.runtime.enter();
    let passed = held.counters().passed;
    held.pass();
    stand.runtime.block_on(held.wait_until(|counters| counters.passed > passed));
    has_row("after the late DELETE")?;
    Ok(Verdict::Pass("the DELETE removes what is below the truncate, whenever it runs"))
}

/// B90: the first chunk is durable, the second fails, the process dies.
pub fn second_chunk_fails(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.settings.batch = "max_rows = 2".to_owned();
    stand.configure();
    stand.feed(case.entries());
    let mut held = None;
    let mut lock = None;
    match sink {
        Sink::Sqlite => {
            stand.run(&["--max-messages", "2"]);
            let mut other = stand.sqlite();
            let lock =
                other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(|e| e.to_string())?;
            let run = Running::start(&stand.stage, &["--until-end"]);
            stand.runtime.block_on(run.until_said("paused"));
            run.kill();
            drop(lock);
        }
        Sink::Postgres | Sink::MySql => {
            stand.run(&["--max-messages", "2"]);
            lock = Some(killed_in_a_transaction(&stand)?);
        }
        Sink::ClickHouse => {
            stand.run(&["--max-messages", "2"]);
            held = Some(killed_in_a_write(&mut stand)?);
        }
    }
    numbered_rows(&stand, case, 2)?;
    if stand.committed("srv.public.t", 0) != Some(2) {
        return Err("the first chunk is not committed alone".to_owned());
    }
    if let Some(lock) = lock {
        go_on_behind(&stand, lock)?;
    }
    stand.run_to_end()?;
    numbered_rows(&stand, case, 4)?;
    late_write_changes_nothing(&stand, case, held, 4)?;
    Ok(Verdict::Pass(""))
}

/// B95: another process holds SQLite's write lock.
pub fn locked(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.settings.sink = "busy_timeout_ms = 100\n".to_owned();
    stand.settings.batch = "max_rows = 4".to_owned();
    stand.configure();
    stand.feed(numbered(case, 25, 0, 0));
    stand.run(&["--max-messages", "2"]);
    let mut other = stand.sqlite();
    let lock = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(|e| e.to_string())?;
    let run = Running::start(&stand.stage, &["--until-end"]);
    stand.runtime.block_on(run.until_said("paused"));
    if stand.committed("srv.public.t", 0) != Some(2) {
        return Err("an offset moved under the lock".to_owned());
    }
    drop(lock);
    let (status, report) = run.wait();
    if !status.success() {
        return Err(format!("{status}, {report:?}"));
    }
    numbered_rows(&stand, case, 25)?;
    Ok(Verdict::Pass(""))
}

/// B96: what passes by itself is waited for; what does not is one record's fault.
pub fn kinds_of_errors(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.settings.batch = "max_rows = 3".to_owned();
    let good: Vec<Entry> = case.entries().into_iter().take(3).collect();
    stand.anchor();
    stand.feed(good);
    match sink {
        Sink::Sqlite => {
            stand.settings.sink = "busy_timeout_ms = 100\n".to_owned();
            stand.configure();
            let mut other = stand.sqlite();
            let lock =
                other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(|e| e.to_string())?;
            let run = Running::start(&stand.stage, &["--until-end"]);
            stand.runtime.block_on(run.until_said("paused"));
            drop(lock);
            ended(run)?;
        }
        Sink::Postgres | Sink::MySql => {
            stand.settings.sink = "lock_timeout_ms = 300\n".to_owned();
            let runtime = stand.runtime.handle().clone();
            let _inside = runtime.enter();
            let proxy = stand.runtime.block_on(stand.server().proxy());
            stand.reach_through(Some(&proxy.address().to_string()));
            stand.runtime.block_on(proxy.refuse());
            let run = Running::start(&stand.stage, &["--max-messages", "2"]);
            stand.runtime.block_on(run.until_said("paused"));
            if stand.committed("srv.public.t", 0).is_some() {
                return Err("an offset moved while the destination was away".to_owned());
            }
            proxy.pass();
            ended(run)?;
            let lock = stand.runtime.block_on(stand.server().lock("t"));
            let run = Running::start(&stand.stage, &["--until-end"]);
            stand.runtime.block_on(run.until_said("paused"));
            stand.runtime.block_on(lock.release());
            ended(run)?;
            stand.reach_through(None);
        }
        Sink::ClickHouse => {
            let runtime = stand.runtime.handle().clone();
            let _inside = runtime.enter();
            let (proxy, address) = runtime.block_on(Proxy::before_clickhouse());
            stand.reach_through(Some(&address.url));
            stand.configure();
            let unavailable =
                Fault::Answer { status: 503, code: None, body: "<html>Service Unavailable</html>".into() };
            stand.runtime.block_on(proxy.refuse());
            let run = Running::start(&stand.stage, &["--until-end"]);
            stand.runtime.block_on(run.until_said("paused"));
            for plan in [
                Plan::new(unavailable),
                answer(241, "Memory limit (total) exceeded: would use 3.1 GiB. (MEMORY_LIMIT_EXCEEDED)"),
                answer(242, "Table is in readonly mode. (TABLE_IS_READ_ONLY)"),
            ] {
                let before = proxy.counters().answered;
                proxy.plan(plan);
                stand.runtime.block_on(proxy.wait_until(|counters| counters.answered > before));
            }
            if stand.committed("srv.public.t", 0).is_some() {
                return Err("an offset moved while the destination was away".to_owned());
            }
            proxy.pass();
            ended(run)?;
            stand.reach_through(None);
        }
    }
    numbered_rows(&stand, case, 3)?;
    let rest: Vec<Entry> = case.entries().into_iter().skip(3).collect();
    let found = past_poison(&mut stand, rest)?;
    stops(&found, &[(3, &sink.shown("id"))])?;
    let rows: Vec<_> = [0, 1, 2, 4].iter().map(|id| json!({"id": id, "v": format!("r{id}")})).collect();
    same_rows(&rows.into(), &stand.table("t"), &case.table.key, true)?;
    Ok(Verdict::SetAside("dead letters at offset 3".into()))
}

fn ended(run: Running) -> Result<(), String> {
    let logs = run.logs();
    let (status, report) = run.wait();
    if status.success() { Ok(()) } else { Err(format!("{status}, {report:?}: {logs}")) }
}
