//! MariaDB from the Debian package, with a data folder of its own and a binary log of whole rows.
//!
//! Only the package with the programs is installed, not the one that runs a server of the machine.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::home::Home;
use super::process::{free_port, run, tail, wait_ready};
use super::{Folders, Given, Launch, Process, Progress, Running, Service, ServiceError, packages};

/// The environment variable that replaces the server: `mysql://user:password@host:port`, a user who may create databases and
/// replicate, `binlog_format = ROW` and `binlog_row_image = FULL`.
pub const MARIADB_URL: &str = "SETTLE_TEST_MARIADB_URL";

const USER: &str = "settle";
const PASSWORD: &str = "settle-test"; // it guards nothing

const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    "--max-connections=200",
    "--innodb-buffer-pool-size=64M",
    // Its data need not outlive the machine, so nothing is flushed.
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--sync-binlog=0",
    // Relative to the data folder: the path of a socket may not be longer than 107 bytes.
    "--socket=mariadb.sock",
    "--pid-file=mariadb.pid",
];

/// Debian keeps it in a folder that only root has in PATH.
fn program() -> &'static str {
    let installed = "/usr/sbin/mariadbd";
    if Path::new(installed).exists() { installed } else { "mariadbd" }
}

/// One server with one user who may do anything.
pub struct MariaDb;

impl Service for MariaDb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn replaced_by(&self) -> &'static str {
        MARIADB_URL
    }

    fn prepare(&self, _: &Folders, progress: Progress<'_>) -> Result<(), ServiceError> {
        packages::ensure(&[&packages::MARIADB], progress)
    }

    fn start(&self, _: &Folders, folder: &Path, _: &Given) -> Result<Launch, ServiceError> {
        // The package with the programs alone makes no user.
        let home = Home::create(folder, &["mysql", "nobody"])?;
        let data = home.path().join("data");
        let mut create = home.command("mariadb-install-db");
        create
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ])
            .args(["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"])
            .arg(format!("--datadir={}", data.display()));
        run("mariadb: creating its data folder", &mut create)?;
        let user = format!(
            "CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        );
        let init = home.write("init.sql", &user)?;

        let port = free_port()?;
        let mut server = home.command(program());
        server
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--init-file={}", init.display()))
            .arg(format!("--port={port}"))
            .args(SETTINGS);
        let log = folder.join("mariadb.log");
        let (process, child) = Process::spawn(&mut server, &log)?;
        let address = format!("127.0.0.1:{port}");
        let url = format!("mysql://{USER}:{PASSWORD}@{address}");
        Ok(Launch { process, child, log, address, exports: [(MARIADB_URL.to_owned(), url)].into() })
    }

    fn wait_ready(&self, running: &mut Running) -> Result<(), ServiceError> {
        wait_ready(self.name(), &running.process, &running.log, Duration::from_secs(60), || {
            tail(&running.log, usize::MAX).contains("ready for connections")
                && TcpStream::connect(&running.address).is_ok()
        })
    }

    fn describe(&self) -> String {
        "MariaDB with a binary log of rows".into()
    }
}
