//! One line of progress on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use settle_engine::run::progress::Watch;

/// Shows the run until it is dropped; nothing where standard error is no terminal.
pub(crate) async fn show(mut watch: Watch) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    loop {
        let away = watch.pause.borrow_and_update().as_ref().map(|pause| pause.why.clone());
        let progress = watch.progress.borrow_and_update().clone();
        let tally = progress.tally;
        let message = match away.or(progress.source_away) {
            Some(why) => format!("paused: {why}"),
            None => format!("{} read, {} settled, {} partitions", tally.read, tally.placed(), progress.partitions),
        };
        bar.set_message(message);
        tokio::select! {
            changed = watch.progress.changed() => if changed.is_err() { break },
            changed = watch.pause.changed() => if changed.is_err() { break },
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bar.finish_and_clear();
}
