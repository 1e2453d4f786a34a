//! `settle connector`

use std::collections::BTreeMap;
use std::time::Duration;

use settle_engine::finding::{Finding, Severity};

use crate::args::{ConnectorArgs, ConnectorCommand, RegisterArgs, ReportFormat, SnapshotArgs, SnapshotType, Switch};
use crate::connector::{
    Configuration, Manner, Outcome, RegisterError, RemovalError, SignalError, Snapshot, SnapshotKind, Worker,
    WorkerError, delete, prepare, register, signal,
};
use crate::database::{Address, AddressError, DatabaseError, FailureKind};
use crate::exit::{self, Exit, fail};

/// Runs the subcommand.
pub fn execute(args: &ConnectorArgs) -> Exit {
    let worker = match Worker::at(&args.connect) {
        Ok(worker) => worker,
        Err(error) => return fail(Exit::Usage, &error),
    };
    exit::block_on(run(&worker, args)).unwrap_or_else(|error| fail(Exit::Bug, &error))
}

async fn run(worker: &Worker, args: &ConnectorArgs) -> Exit {
    match &args.command {
        ConnectorCommand::Register(args) => registers(worker, args).await,
        ConnectorCommand::Status { name, report } => status(worker, name, *report).await,
        ConnectorCommand::Pause { name } => done(worker.pause(name).await, || format!("paused {name}")),
        ConnectorCommand::Resume { name } => done(worker.resume(name).await, || format!("resumed {name}")),
        ConnectorCommand::Restart { name } => {
            done(worker.restart(name).await, || format!("restarted {name} and its tasks"))
        }
        ConnectorCommand::Snapshot(args) => snapshot(worker, args).await,
        ConnectorCommand::Delete { name, drop_slot, url, password } => {
            match source(url.as_deref(), password.as_deref()) {
                Err(error) => fail(Exit::Usage, &error),
                Ok(address) => match delete(worker, name, *drop_slot, address.as_ref()).await {
                    Ok(()) if *drop_slot => said(&format!("deleted {name}, its slot and its publication")),
                    Ok(()) => said(&format!("deleted {name}")),
                    Err(error) => fail(of_removal(&error), &error),
                },
            }
        }
    }
}

fn said(what: &str) -> Exit {
    println!("{what}");
    Exit::Done
}

fn done(result: Result<(), WorkerError>, what: impl FnOnce() -> String) -> Exit {
    match result {
        Ok(()) => said(&what()),
        Err(error) => fail(of_worker(&error), &error),
    }
}

fn source(url: Option<&str>, password: Option<&str>) -> Result<Option<Address>, AddressError> {
    url.map(|url| Address::read(url, password)).transpose()
}

async fn registers(worker: &Worker, args: &RegisterArgs) -> Exit {
    let configuration = match configuration(args) {
        Ok(configuration) => configuration,
        Err(problem) => {
            eprintln!("settle: {problem}");
            return Exit::Usage;
        }
    };
    if args.print {
        return match prepare(&configuration, !args.no_check).await {
            Ok((settings, fitness)) => {
                fitness.findings.iter().for_each(tell);
                match serde_json::to_string_pretty(&settings.masked()) {
                    Ok(json) => said(&json),
                    Err(error) => fail(Exit::Bug, &error),
                }
            }
            Err(error) => fail(of_register(&error), &error),
        };
    }
    let wait = args.wait.unwrap_or(Duration::from_secs(60));
    let manner = Manner { check: !args.no_check, replace: args.replace, shared: args.shared, wait };
    match register(worker, &configuration, manner).await {
        Ok(registered) => {
            registered.findings.iter().for_each(tell);
            let (name, what) = match registered.outcome {
                Outcome::Created => (&args.name, "is registered"),
                Outcome::Unchanged => (&args.name, "was registered already, with the same settings"),
                Outcome::Replaced => (&args.name, "has its new settings"),
            };
            println!("connector {name} {what}{}\n", if wait.is_zero() { "" } else { ", and runs" });
            print!("{}", source_section(&configuration));
            Exit::Done
        }
        Err(error) => {
            if let RegisterError::Unfit(findings) | RegisterError::Taken(findings) = &error {
                findings.iter().for_each(tell);
            }
            fail(of_register(&error), &error)
        }
    }
}

fn configuration(args: &RegisterArgs) -> Result<Configuration, String> {
    let address = Address::read(&args.url, args.password.as_deref()).map_err(|error| error.to_string())?;
    let mut set = BTreeMap::new();
    for pair in &args.set {
        let (key, value) = pair.split_once('=').ok_or("--set: KEY=VALUE, as in --set snapshot.mode=no_data")?;
        set.insert(key.to_owned(), value.to_owned());
    }
    Ok(Configuration {
        tables: args.tables.clone(),
        signal: args.signal.clone(),
        keys: args.key.clone(),
        schemas: args.schemas == Switch::On,
        partitions: args.partitions,
        replication_factor: args.replication_factor,
        heartbeat_ms: args.heartbeat.as_millis().try_into().unwrap_or(u64::MAX),
        heartbeat_query: args.heartbeat_query.clone(),
        kafka: args.kafka.clone(),
        server_id: args.server_id,
        slot: args.slot.clone(),
        publication: args.publication.clone(),
        set,
        ..Configuration::new(&args.name, args.prefix.as_deref().unwrap_or(&args.name), address)
    })
}

/// What stands in the configuration of a run that reads this.
fn source_section(configuration: &Configuration) -> String {
    let mut text = format!(
        "# settle.toml\n[source]\nkind = \"kafka\"\nbrokers = \"{}\"\ngroup = \"{}-settle\"\ntopics = [\"{}.*\"]\n",
        configuration.kafka.as_deref().unwrap_or("host:port"),
        configuration.name,
        configuration.prefix,
    );
    if !configuration.schemas {
        text.push_str(
            "time_precision_mode = \"microseconds\"\ndecimal_handling_mode = \"string\"\n\
             binary_handling_mode = \"bytes\"\n",
        );
    }
    text
}

/// One finding, on standard error: standard output may be a configuration.
fn tell(finding: &Finding) {
    let mark = match finding.severity {
        Severity::Note => "ok  ",
        Severity::Warning => "note",
        Severity::Error => "FAIL",
    };
    eprintln!("{mark}  {}", finding.what);
    if !finding.fix.is_empty() {
        eprintln!("      fix: {}", finding.fix);
    }
}

async fn status(worker: &Worker, name: &str, format: ReportFormat) -> Exit {
    let status = match worker.status(name).await {
        Ok(Some(status)) => status,
        Ok(None) => {
            let error = worker.unknown(name).await;
            return fail(of_worker(&error), &error);
        }
        Err(error) => return fail(of_worker(&error), &error),
    };
    match format {
        ReportFormat::Human => print!("{status}"),
        ReportFormat::Json => {
            if let Ok(json) = serde_json::to_string(&status) {
                println!("{json}");
            }
        }
    }
    if status.failure().is_some() { Exit::Contract } else { Exit::Done }
}

async fn snapshot(worker: &Worker, args: &SnapshotArgs) -> Exit {
    let address = match source(args.url.as_deref(), args.password.as_deref()) {
        Ok(address) => address,
        Err(error) => return fail(Exit::Usage, &error),
    };
    let kind = match args.kind {
        SnapshotType::Incremental => SnapshotKind::Incremental,
        SnapshotType::Blocking => SnapshotKind::Blocking,
    };
    let snapshot = Snapshot { kind, tables: args.tables.clone(), signal: args.signal.clone() };
    match signal(worker, &args.name, address.as_ref(), &snapshot).await {
        Ok(id) => said(&format!("asked {} for a snapshot of {} (signal {id})", args.name, args.tables.join(", "))),
        Err(error) => fail(of_signal(&error), &error),
    }
}

fn of_worker(error: &WorkerError) -> Exit {
    match error {
        WorkerError::Address(_) => Exit::Usage,
        WorkerError::Unreachable { .. } => Exit::SourceUnreachable,
        _ => Exit::Contract,
    }
}

fn of_database(error: &DatabaseError) -> Exit {
    match error.kind {
        FailureKind::Unreachable => Exit::SourceUnreachable,
        _ => Exit::Contract,
    }
}

fn of_register(error: &RegisterError) -> Exit {
    match error {
        RegisterError::Configuration(_) => Exit::Usage,
        RegisterError::Database(error) => of_database(error),
        RegisterError::Worker(error) => of_worker(error),
        _ => Exit::Contract,
    }
}

fn of_signal(error: &SignalError) -> Exit {
    match error {
        SignalError::Worker(error) => of_worker(error),
        SignalError::Database(error) => of_database(error),
        _ => Exit::Contract,
    }
}

fn of_removal(error: &RemovalError) -> Exit {
    match error {
        RemovalError::Worker(error) => of_worker(error),
        RemovalError::Source(error) => of_signal(error),
        RemovalError::Database(error) => of_database(error),
        RemovalError::NoSlot(_) => Exit::Usage,
        RemovalError::Busy { .. } => Exit::Contract,
    }
}
