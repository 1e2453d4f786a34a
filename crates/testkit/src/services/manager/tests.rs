//! The manager over services that only sleep.

use std::cell::RefCell;
use std::process::Command;

use super::*;

const BASE: &str = "SETTLE_TEST_FAKE_BASE";
const GUEST: &str = "SETTLE_TEST_FAKE_GUEST";
const BROKEN: &str = "SETTLE_TEST_FAKE_BROKEN";

/// Sleeps, and says as its address which process it is and what it was given.
struct Sleeper {
    variable: &'static str,
    needs: &'static [&'static str],
    gets_ready: bool,
}

impl Service for Sleeper {
    fn name(&self) -> &'static str {
        self.variable
    }

    fn replaced_by(&self) -> &'static str {
        self.variable
    }

    fn needs(&self) -> &'static [&'static str] {
        self.needs
    }

    fn describe(&self) -> String {
        "a sleeper".to_owned()
    }

    fn prepare(&self, _: &Folders, _: Progress<'_>) -> Result<(), ServiceError> {
        Ok(())
    }

    fn start(&self, _: &Folders, folder: &Path, given: &Given) -> Result<Launch, ServiceError> {
        let log = folder.join("log");
        let (process, child) = Process::spawn(Command::new("sleep").arg("600"), &log)?;
        let address = format!("{}<{}", process.pid(), given.values().cloned().collect::<String>());
        Ok(Launch { process, child, log, exports: [(self.variable.to_owned(), address.clone())].into(), address })
    }

    fn wait_ready(&self, running: &mut Running) -> Result<(), ServiceError> {
        if self.gets_ready {
            return Ok(());
        }
        let (how, tail) = ("stays silent".to_owned(), String::new());
        Err(ServiceError::NotReady { service: self.variable, how, log: running.log.clone(), tail })
    }
}

const BASE_ALONE: Sleeper = Sleeper { variable: BASE, needs: &[], gets_ready: true };
const GUEST_OF_BASE: Sleeper = Sleeper { variable: GUEST, needs: &[BASE], gets_ready: true };
const SILENT: Sleeper = Sleeper { variable: BROKEN, needs: &[], gets_ready: false };

/// A manager of its own, and what it said.
struct Bench {
    services: Services,
    said: RefCell<Vec<String>>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let folders = Folders { cache: folder.path().join("cache"), run: folder.path().join("run") };
        let services = Services::open(folders, &|_| ()).unwrap();
        Self { services, said: RefCell::default(), _folder: folder }
    }

    fn up(&self, services: Vec<Box<dyn Service>>) -> Result<Given, ServiceError> {
        self.services.up_with(services, false, &|line| self.said.borrow_mut().push(line.to_owned()))
    }

    fn state(&self) -> State {
        State::load(self.services.folders()).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.services.down(true, &|_| ()).unwrap();
    }
}

fn both() -> Vec<Box<dyn Service>> {
    vec![Box::new(GUEST_OF_BASE), Box::new(BASE_ALONE)]
}

#[test]
fn a_service_starts_after_what_it_needs_and_is_told_where_that_is() {
    let bench = Bench::new();
    let exports = bench.up(both()).unwrap();
    assert!(exports[GUEST].ends_with(&format!("<{}", exports[BASE])), "{exports:?}");
    let said = bench.said.borrow();
    let at = |line: &str| said.iter().position(|said| said.starts_with(line)).unwrap();
    assert!(at(&format!("{BASE}: ready")) < at(&format!("{GUEST}: starting")), "{said:?}");
}

#[test]
fn what_runs_is_left_alone_until_what_it_needs_is_another() {
    let bench = Bench::new();
    let first = bench.up(both()).unwrap();
    assert_eq!(bench.up(both()).unwrap(), first);

    let before = bench.state();
    before.alive(BASE).unwrap().process.stop(PATIENCE).unwrap();
    let second = bench.up(both()).unwrap();
    assert!(second[GUEST].ends_with(&format!("<{}", second[BASE])), "{second:?}");
    assert!(second[BASE] != first[BASE] && !before.alive(GUEST).is_some_and(|old| old.process.is_alive()));
}

#[test]
fn a_failure_stops_what_was_started_and_nothing_else() {
    let bench = Bench::new();
    bench.up(vec![Box::new(BASE_ALONE)]).unwrap();
    let failure = bench.up(vec![Box::new(BASE_ALONE), Box::new(SILENT), Box::new(GUEST_OF_BASE)]).unwrap_err();
    assert!(failure.to_string().contains("stays silent"), "{failure}");
    let state = bench.state();
    let alive: Vec<&str> = state
        .services
        .iter()
        .filter(|running| running.process.is_alive())
        .map(|running| running.name.as_str())
        .collect();
    assert_eq!(alive, [BASE]);
}
