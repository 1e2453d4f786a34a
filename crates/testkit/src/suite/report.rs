//! Runs the list against every sink, each behaviour as a test of its own, and says how many ran.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Failed, Trial};

use super::behaviours::ALL;
use super::stand::Stand;

/// A sink in the suite.
pub struct Member {
    /// Its name, which its tests begin with.
    pub name: &'static str,
    /// How many behaviours it must have: a number that is checked in, so that none is lost unseen.
    pub behaviours: usize,
    /// Its test bed.
    pub stand: fn() -> Box<dyn Stand>,
}

/// The tests of a sink.
struct Tested {
    name: &'static str,
    expected: usize,
    /// Tests that were begun, and that passed.
    begun: Arc<AtomicUsize>,
    held: Arc<AtomicUsize>,
    /// Behaviours that it cannot have, and why.
    others: Vec<(&'static str, &'static str)>,
}

/// Runs the suite as a test binary does: its arguments filter and list. To be the `main` of a test without a
/// harness.
pub fn run(members: &[Member]) -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let mut tested = Vec::new();
    for member in members {
        tested.push(tests_of(member, &mut trials));
    }
    let is_listing = arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !is_listing {
        tested.iter().for_each(tell);
    }
    conclusion.exit_code()
}

fn tests_of(member: &Member, trials: &mut Vec<Trial>) -> Tested {
    let Member { name, behaviours: expected, stand } = *member;
    let (begun, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let bed = stand();
    let mut others = Vec::new();
    let mut own = 0;
    for behaviour in ALL {
        if let Some(why) = behaviour.is_not_for(&*bed) {
            others.push((behaviour.name, why));
            continue;
        }
        own += 1;
        let (begun, held) = (Arc::clone(&begun), Arc::clone(&held));
        let test = move || {
            begun.fetch_add(1, Ordering::Relaxed);
            let bed = stand();
            // Threads, so that sinks that block are beside each other, too.
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime").block_on((behaviour.check)(&*bed));
            held.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        trials.push(Trial::test(format!("{name}::{}", behaviour.name), test));
    }
    let counted = move || {
        if own == expected {
            return Ok(());
        }
        Err(Failed::from(format!("{name} has {own} behaviours, and {expected} are checked in as its number")))
    };
    trials.push(Trial::test(format!("{name}::has_the_number_of_behaviours_that_is_checked_in"), counted));
    Tested { name, expected, begun, held, others }
}

fn tell(tested: &Tested) {
    let Tested { name, expected, begun, held, others } = tested;
    let (begun, held) = (begun.load(Ordering::Relaxed), held.load(Ordering::Relaxed));
    // Nothing of it was asked for.
    if begun == 0 {
        return;
    }
    say(&format!("{name}: {begun} of {expected} behaviours ran, {held} hold"));
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (behaviour, why) in others {
        by_reason.entry(why).or_default().push(behaviour);
    }
    for (why, behaviours) in by_reason {
        say(&format!("{name} cannot have, because {why}: {}", behaviours.join(", ")));
    }
}

/// Prints a line whatever captures the output of tests.
pub(super) fn say(line: &str) {
    // Nobody is left to tell where this fails.
    let _ = writeln!(std::io::stderr(), "suite: {line}");
}
