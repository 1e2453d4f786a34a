//! `settle simulate`

use std::io::{self, IsTerminal};
use std::time::Duration;

use settle_engine::shutdown;
use tokio::sync::watch;

use crate::args::{ReportFormat, SimulateArgs};
use crate::database::{Address, FailureKind};
use crate::exit::{self, Exit, fail};
use crate::progress;
use crate::simulate::{Hazards, Options, Report, SimulateError, run};

/// Writes and prints what was written.
pub fn execute(args: &SimulateArgs) -> Exit {
    let options = match options(args) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("settle: {problem}");
            return Exit::Usage;
        }
    };
    exit::block_on(simulate(options, args.report)).unwrap_or_else(|error| fail(Exit::Bug, &error))
}

fn options(args: &SimulateArgs) -> Result<Options, String> {
    let address = Address::read(&args.url, args.password.as_deref()).map_err(|error| error.to_string())?;
    let hazards = Hazards::parse(&args.hazards).map_err(|problem| format!("--hazards: {problem}"))?;
    let options = Options {
        duration: args.duration,
        transactions: args.transactions,
        rate: args.rate,
        writers: args.writers,
        seed: args.seed,
        hazards,
        ..Options::at(address)
    };
    options.problem().map_or(Ok(options), |problem| Err(format!("--{problem}")))
}

async fn simulate(options: Options, format: ReportFormat) -> Exit {
    let (stopper, shutdown) = shutdown::channel();
    if let Err(error) = crate::run::listen(stopper) {
        return fail(Exit::Bug, &error);
    }
    let (sender, watch) = watch::channel(Report::default());
    let shown = tokio::spawn(show(watch, options.address.to_string()));
    let ended = run(&options, sender, shutdown.clone()).await;
    // It ends with the simulation, and clears its line before the summary is printed.
    let _ = tokio::time::timeout(Duration::from_secs(1), shown).await;
    match ended {
        Ok(report) => {
            match format {
                ReportFormat::Human => print!("{report}"),
                ReportFormat::Json => {
                    if let Ok(json) = serde_json::to_string(&report) {
                        println!("{json}");
                    }
                }
            }
            match shutdown.request() {
                shutdown::Request::None => Exit::Done,
                _ => Exit::Interrupted,
            }
        }
        Err(error) => {
            let exit = match &error {
                SimulateError::Option(_) => Exit::Usage,
                SimulateError::ForeignTable(_) => Exit::Contract,
                SimulateError::Database(error) if error.kind == FailureKind::Unreachable => Exit::SourceUnreachable,
                SimulateError::Database(_) => Exit::Contract,
                SimulateError::Broken(_) => Exit::Bug,
            };
            fail(exit, &error)
        }
    }
}

/// A line of progress until the simulation ends; nothing where standard error is no terminal.
async fn show(mut watch: watch::Receiver<Report>, address: String) {
    if !io::stderr().is_terminal() {
        return;
    }
    let bar = progress::line();
    loop {
        let report = watch.borrow_and_update().clone();
        let mut kinds: Vec<_> = report.kinds.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let most: Vec<String> = kinds.iter().take(4).map(|(kind, count)| format!("{} {count}", kind.name())).collect();
        bar.set_message(format!(
            "{address}: {} transactions, {} a second, {} retried ({})",
            report.transactions(),
            report.per_second(),
            report.retried,
            most.join(", ")
        ));
        if watch.changed().await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bar.finish_and_clear();
}
