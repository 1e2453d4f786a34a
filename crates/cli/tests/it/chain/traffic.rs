//! Four writers on the source, from before the connector is registered until the last kill is over.

use settle::simulate::{self, Kind, Options, Report, SimulateError};
use settle_engine::shutdown::{self, Stopper};
use settle_testkit::services::is_full;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::source::Source;
use crate::child::until;

/// The writers; gone with the value.
pub struct Traffic {
    stopper: Stopper,
    watch: watch::Receiver<Report>,
    running: Option<JoinHandle<Result<Report, SimulateError>>>,
}

impl Traffic {
    /// Makes the tables and begins to write.
    pub async fn start(source: &Source) -> Self {
        let mut options = Options::new(&source.url()).unwrap();
        options.writers = 4;
        options.seed = 4;
        // All writers together: what the chain of a busy machine of two cores can follow.
        options.rate = Some(if is_full() { 100.0 } else { 80.0 });
        options.hazards = source.hazards();
        simulate::prepare(&options).await.unwrap();
        let (stopper, shutdown) = shutdown::channel();
        let (show, watch) = watch::channel(Report::default());
        let running = tokio::spawn(async move { simulate::run(&options, show, shutdown).await });
        Self { stopper, watch, running: Some(running) }
    }

    /// Waits until so many more transactions are written.
    pub async fn until_more(&self, transactions: u64) {
        let wanted = self.watch.borrow().transactions() + transactions;
        until("transactions of the writers", async || self.watch.borrow().transactions(), |now| *now >= wanted).await;
    }

    /// Stops, not before so many transactions are written, hazards of every kind among them.
    pub async fn stop(mut self, at_least: u64) {
        let hazards = [Kind::InsertUpdate, Kind::Reinsert, Kind::KeyChange, Kind::LongOpen, Kind::Toast];
        let enough = |report: &Report| {
            report.transactions() >= at_least && hazards.iter().all(|kind| report.kinds.contains_key(kind))
        };
        until("enough transactions of every kind", async || self.watch.borrow().clone(), enough).await;
        self.stopper.ask();
        let running = self.running.take().unwrap();
        let report = running.await.unwrap().unwrap();
        assert!(report.skipped * 20 < report.committed, "{report}");
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}
