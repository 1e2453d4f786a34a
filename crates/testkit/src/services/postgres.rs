//! PostgreSQL from the Debian package, with a cluster of its own that is ready for logical decoding.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::home::Home;
use super::process::{free_port, run, tail, wait_ready};
use super::{Folders, Given, Launch, Process, Progress, Running, Service, ServiceError, packages};

/// The environment variable that replaces the server: `postgres://user:password@host:port/database`, a user who may create
/// databases and replicate, and `wal_level = logical`.
pub const POSTGRES_URL: &str = "SETTLE_TEST_POSTGRES_URL";

const USER: &str = "settle";
const PASSWORD: &str = "settle-test"; // it guards nothing
const INSTALLED: &str = "/usr/lib/postgresql";
const WANTED_VERSION: u32 = 15;

/// What the cluster differs in from a fresh one. Its data need not outlive the machine, so nothing is flushed.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "wal_level=logical",
    "max_replication_slots=64",
    "max_wal_senders=64",
    "max_connections=200",
    "shared_buffers=64MB",
    "max_wal_size=4GB",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "timezone=UTC",
    "log_timezone=UTC",
];

/// One server with one user who may do anything.
pub struct Postgres;

impl Service for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn replaced_by(&self) -> &'static str {
        POSTGRES_URL
    }

    fn prepare(&self, _: &Folders, progress: Progress<'_>) -> Result<(), ServiceError> {
        let _without = programs().is_none().then(WithoutCluster::hold);
        packages::ensure(&[&packages::POSTGRES], progress)
    }

    fn start(&self, _: &Folders, folder: &Path, _: &Given) -> Result<Launch, ServiceError> {
        let programs = programs().unwrap_or_default(); // an empty path leaves the search to PATH
        let home = Home::create(folder, &["postgres", "nobody"])?;
        let password = home.write("password", PASSWORD)?;
        let data = home.path().join("data");
        let mut create = home.command(programs.join("initdb"));
        create
            .args(["--username", USER, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"])
            .arg("--pwfile")
            .arg(&password)
            .arg("--pgdata")
            .arg(&data);
        run("postgres: creating its cluster", &mut create)?;

        let port = free_port()?;
        let mut server = home.command(programs.join("postgres"));
        server.arg("-D").arg(&data).arg("-c").arg(format!("port={port}"));
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        let log = folder.join("postgres.log");
        let (process, child) = Process::spawn(&mut server, &log)?;
        // SIGTERM waits for every client to leave; the data are thrown away, so nobody has to be waited for.
        let process = process.ended_by(Signal::QUIT);
        let address = format!("127.0.0.1:{port}");
        let url = format!("postgres://{USER}:{PASSWORD}@{address}/postgres");
        Ok(Launch { process, child, log, address, exports: [(POSTGRES_URL.to_owned(), url)].into() })
    }

    fn wait_ready(&self, running: &mut Running) -> Result<(), ServiceError> {
        wait_ready(self.name(), &running.process, &running.log, Duration::from_secs(60), || {
            tail(&running.log, usize::MAX).contains("ready to accept connections")
                && TcpStream::connect(&running.address).is_ok()
        })
    }

    fn describe(&self) -> String {
        "PostgreSQL with logical decoding".into()
    }
}

/// The folder of the server's programs: Debian keeps them out of PATH, one folder a version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(INSTALLED).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("initdb").exists().then_some((version == WANTED_VERSION, version, programs))
    });
    versions.max().map(|(_, _, programs)| programs)
}

/// While it exists, installing the package makes no cluster and so starts no server that nobody asked for.
struct WithoutCluster {
    file: PathBuf,
}

impl WithoutCluster {
    fn hold() -> Self {
        let file = PathBuf::from("/etc/postgresql-common/createcluster.d/settle-test.conf");
        // Without it the package makes its cluster as ever: in nobody's way, so no reason to fail.
        if rustix::process::geteuid().is_root()
            && let Some(folder) = file.parent()
            && fs::create_dir_all(folder).is_ok()
        {
            let _ = fs::write(&file, "create_main_cluster = false\n");
        }
        Self { file }
    }
}

impl Drop for WithoutCluster {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
        for folder in self.file.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(folder); // only where it is empty
        }
    }
}
