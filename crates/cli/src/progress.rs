//! One line of progress on a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use settle_core::tally::Tally;
use settle_engine::run::progress::Watch;

/// Standard error as a terminal: what is logged stands above the line of progress.
static TERMINAL: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Standard error for logs.
pub(crate) struct Above;

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TERMINAL.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A line that moves by itself, below what is logged.
pub(crate) fn line() -> ProgressBar {
    let bar = TERMINAL.add(ProgressBar::new_spinner());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Shows the run until it ends; nothing where standard error is no terminal.
pub(crate) async fn show(mut watch: Watch) {
    if !io::stderr().is_terminal() {
        return;
    }
    let bar = line();
    loop {
        let away = watch.pause.borrow_and_update().as_ref().map(|pause| pause.why.clone());
        let progress = watch.progress.borrow_and_update().clone();
        let tally = progress.tally;
        let message = match away.or(progress.source_away) {
            Some(why) => format!("paused: {why}"),
            None => counts(&tally, progress.swept, progress.partitions),
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

/// The line while all goes well.
fn counts(tally: &Tally, swept: u64, partitions: usize) -> String {
    let dead = match tally.dead_lettered {
        0 => String::new(),
        count => format!("{count} dead letters, "),
    };
    let swept = if swept == 0 { String::new() } else { format!("{swept} ghosts swept, ") };
    format!("{} read, {} settled, {dead}{swept}{partitions} partitions", tally.read, tally.placed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_and_ghosts_are_told_where_there_are_any() {
        let mut tally = Tally { read: 9, applied: 7, ..Tally::default() };
        assert_eq!(counts(&tally, 0, 2), "9 read, 7 settled, 2 partitions");
        tally.dead_lettered = 2;
        assert_eq!(counts(&tally, 0, 2), "9 read, 9 settled, 2 dead letters, 2 partitions");
        assert_eq!(counts(&tally, 4, 2), "9 read, 9 settled, 2 dead letters, 4 ghosts swept, 2 partitions");
    }
}
