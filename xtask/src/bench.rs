//! `cargo xtask bench smoke`: the release binary over a long generated log, with what it took: events per second, CPU time, memory.
//!
//! The figures are of this machine at this moment, with the broker, the destination and Settle on the same cores: they are for
//! looking at beside each other, never a test. Only the memory has a limit, since it must not grow with the log.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use settle_testkit::services::{BUILD, Folders, Services, ensure, workspace};

use crate::child::{self, Interrupt, cargo};
use crate::services::progress;

/// What `settle run` may hold in memory with default settings, MiB.
const MEMORY_LIMIT_MIB: u64 = 400;
const POLL: Duration = Duration::from_millis(100);
/// Kernel clock ticks per second in /proc, fixed on Linux.
const TICKS: f64 = 100.0;

#[derive(clap::Subcommand)]
pub enum Kind {
    /// One pass over a long log into each destination, with default settings
    Smoke(Smoke),
}

#[derive(clap::Args)]
pub struct Smoke {
    /// Records in the log
    #[arg(long, default_value_t = 2_000_000)]
    records: u64,
    /// Wrap every record in its Connect schema (about four times the bytes)
    #[arg(long)]
    schemas: bool,
}

/// One measured pass.
struct Pass {
    name: &'static str,
    records: u64,
    seconds: f64,
    cpu_seconds: f64,
    memory_mib: u64,
}

pub fn run(kind: &Kind) -> Result<ExitCode, Box<dyn Error>> {
    let Kind::Smoke(smoke) = kind;
    let interrupt = Interrupt::watch()?;
    ensure(&BUILD.each_ref(), &progress)?;
    let mut build = cargo(&["build", "--release", "--bins", "--package", "settle", "--package", "settle-testkit"]);
    let status = child::run(build.current_dir(workspace()), &interrupt)?;
    if !status.success() {
        return Ok(child::exit_code(status).into());
    }
    let folders = Folders::of_workspace();
    let services = Services::open(folders.clone(), &progress)?;
    let measured = services.up(false, &progress).map_err(Into::into).and_then(|exports| {
        let folder = folders.run.join("bench");
        let _ = fs::remove_dir_all(&folder); // what an interrupted bench left
        fs::create_dir_all(&folder)?;
        let measured = Bench { smoke, folder: &folder, exports: &exports, interrupt: &interrupt }.measure();
        fs::remove_dir_all(&folder)?;
        measured
    });
    services.down(false, &progress)?;
    Ok(report(&measured?))
}

fn report(passes: &[Pass]) -> ExitCode {
    println!("{:<22} {:>10} {:>10} {:>22} {:>9}", "pass", "records", "records/s", "CPU-s per million", "peak RSS");
    for Pass { name, records, seconds, cpu_seconds, memory_mib } in passes {
        let millions = millions(*records);
        println!(
            "{name:<22} {records:>10} {:>10.0} {:>22.1} {memory_mib:>5} MiB",
            millions * 1e6 / seconds,
            cpu_seconds / millions
        );
    }
    let heavy: Vec<&str> =
        passes.iter().filter(|pass| pass.memory_mib >= MEMORY_LIMIT_MIB).map(|pass| pass.name).collect();
    if heavy.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: more than {MEMORY_LIMIT_MIB} MiB of memory: {}", heavy.join(", "));
    ExitCode::FAILURE
}

#[expect(clippy::cast_precision_loss, reason = "a count for people")]
fn millions(records: u64) -> f64 {
    records as f64 / 1e6
}

struct Bench<'a> {
    smoke: &'a Smoke,
    folder: &'a Path,
    exports: &'a BTreeMap<String, String>,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn measure(&self) -> Result<Vec<Pass>, Box<dyn Error>> {
        let topic = format!("bench_{}", std::process::id());
        progress(&format!("writing {} records to topic {topic}", self.smoke.records));
        self.load(&topic, None)?;
        let into_clickhouse =
            self.kafka_to_clickhouse(&topic).and_then(|config| self.pass("Kafka to ClickHouse", "clickhouse", &config));
        let dropped = Command::new(binary("settle-load")).args([&topic, "--drop"]).envs(self.exports).status()?;
        if !dropped.success() {
            progress(&format!("topic and database {topic} could not be removed ({dropped})"));
        }
        let into_clickhouse = into_clickhouse?;
        let capture = self.folder.join("log.jsonl");
        progress("writing the same log as a capture");
        self.load("shop.public.orders", Some(&capture))?;
        let into_sqlite = self.pass("capture to SQLite", "sqlite", &self.capture_to_sqlite(&capture))?;
        Ok(vec![into_clickhouse, into_sqlite])
    }

    fn load(&self, topic: &str, capture: Option<&Path>) -> Result<(), Box<dyn Error>> {
        let mut load = Command::new(binary("settle-load"));
        load.arg(topic).arg(self.smoke.records.to_string()).envs(self.exports).stdin(Stdio::null());
        load.args(self.smoke.schemas.then_some("--schemas"));
        if let Some(path) = capture {
            load.arg("--capture").stdout(File::create(path)?);
        }
        let status = load.status()?;
        if status.success() { Ok(()) } else { Err(format!("the log could not be written ({status})").into()) }
    }

    fn kafka_to_clickhouse(&self, topic: &str) -> Result<String, Box<dyn Error>> {
        let export = |name: &str| {
            let given = self.exports.get(name).cloned().or_else(|| std::env::var(name).ok());
            given.ok_or_else(|| format!("{name} is not set"))
        };
        Ok(format!(
            "[source]\nkind = \"kafka\"\nbrokers = \"{}\"\ngroup = \"{topic}\"\ntopics = [\"{topic}\"]\n{MODES}\n\
             [sink]\nkind = \"clickhouse\"\nurl = \"{}\"\ndatabase = \"{topic}\"\nuser = \"{}\"\n\
             password = \"env:SETTLE_TEST_CLICKHOUSE_PASSWORD\"\n\n[tables.\"public.orders\".columns]\nid = \"Int64\"\n\
             customer_id = \"Nullable(Int64)\"\nstatus = \"Nullable(String)\"\namount = \"Nullable(Decimal(18, 2))\"\n\
             quantity = \"Nullable(Int32)\"\nexpress = \"Nullable(Bool)\"\nordered_at = \"Nullable(DateTime64(6))\"\n\
             note = \"Nullable(String)\"\n",
            export("SETTLE_TEST_KAFKA")?,
            export("SETTLE_TEST_CLICKHOUSE_URL")?,
            export("SETTLE_TEST_CLICKHOUSE_USER")?,
        ))
    }

    fn capture_to_sqlite(&self, capture: &Path) -> String {
        format!(
            "[source]\nkind = \"file\"\npath = \"{}\"\n{MODES}\n[sink]\nkind = \"sqlite\"\npath = \"{}\"\n\n\
             [tables.\"public.orders\".columns]\nid = \"INTEGER\"\ncustomer_id = \"INTEGER\"\nstatus = \"TEXT\"\n\
             amount = \"TEXT\"\nquantity = \"INTEGER\"\nexpress = \"BOOLEAN\"\nordered_at = \"TEXT\"\nnote = \"TEXT\"\n",
            capture.display(),
            self.folder.join("shop.db").display(),
        )
    }

    /// Runs the pipeline to the end of the log, and looks at the process meanwhile.
    fn pass(&self, name: &'static str, file: &str, config: &str) -> Result<Pass, Box<dyn Error>> {
        let path = self.folder.join(format!("{file}.toml"));
        fs::write(&path, config)?;
        let report = self.folder.join(format!("{file}.report.json"));
        let mut command = Command::new(binary("settle"));
        command.args(["run", "--until-end", "--report", "json", "-c"]).arg(&path).envs(self.exports);
        progress(&format!("{name}: running"));
        let child = command.stdin(Stdio::null()).stdout(File::create(&report)?).spawn()?;
        let (cpu_seconds, memory_mib) = self.watch(child)?;
        let said: serde_json::Value = serde_json::from_slice(&fs::read(&report)?)?;
        let number = |field: &str| said[field].as_u64().ok_or_else(|| format!("the report has no {field}"));
        let records = number("read")?;
        if records != self.smoke.records {
            return Err(format!("{name}: {records} records were read of {}", self.smoke.records).into());
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds for people")]
        let seconds = number("elapsed_ms")? as f64 / 1e3;
        Ok(Pass { name, records, seconds, cpu_seconds, memory_mib })
    }

    /// CPU seconds and greatest resident memory of a child until its end.
    fn watch(&self, mut child: Child) -> Result<(f64, u64), Box<dyn Error>> {
        let process = PathBuf::from(format!("/proc/{}", child.id()));
        let (mut cpu, mut memory) = (0.0, 0);
        loop {
            // Gone between two looks: what was seen last stands.
            if let Some((seconds, mib)) = seen(&process) {
                (cpu, memory) = (seconds, mib);
            }
            if let Some(status) = child.try_wait()? {
                return if status.success() {
                    Ok((cpu, memory))
                } else {
                    Err(format!("settle run ended with {status}").into())
                };
            }
            if self.interrupt.is_asked() {
                child.kill()?;
                child.wait()?;
                return Err("interrupted".into());
            }
            thread::sleep(POLL);
        }
    }
}

/// CPU seconds and peak memory (MiB) of a live process.
fn seen(process: &Path) -> Option<(f64, u64)> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name in parentheses may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = fs::read_to_string(process.join("status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.split_whitespace().next()?.parse().ok()?;
    Some((ticks / TICKS, kib / 1024))
}

/// A program of this workspace, built for release.
fn binary(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), |given| workspace().join(given));
    target.join("release").join(name)
}

/// How the generated records are to be read.
const MODES: &str = "time_precision_mode = \"microseconds\"\ndecimal_handling_mode = \"string\"\n";
