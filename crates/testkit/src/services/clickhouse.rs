//! The ClickHouse engine behind the HTTP gateway in `crates/testkit/gateway`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process::{run, wait_ready};
use super::{Folders, Given, Launch, Process, Progress, Running, Service, ServiceError, packages, web, workspace};

/// The environment variable that replaces the gateway by a server: `http://host:port`.
pub const CLICKHOUSE_URL: &str = "SETTLE_TEST_CLICKHOUSE_URL";
/// The user of that server; `default` if unset.
pub const CLICKHOUSE_USER: &str = "SETTLE_TEST_CLICKHOUSE_USER";
/// The password of that user; empty if unset.
pub const CLICKHOUSE_PASSWORD: &str = "SETTLE_TEST_CLICKHOUSE_PASSWORD";

const ENVIRONMENT: &str = "clickhouse-engine";
// A password, so that the way it takes through Settle is tested; it guards nothing.
const USER: &str = "settle";
const PASSWORD: &str = "settle-test";

/// The engine from PyPI, served by `gateway/clickhouse_gateway.py`.
pub struct ClickHouse;

/// The Python of the gateway's own environment.
pub fn gateway_python(folders: &Folders) -> PathBuf {
    folders.cache.join(ENVIRONMENT).join("venv/bin/python")
}

/// The folder of the gateway's sources.
pub fn gateway_folder() -> PathBuf {
    workspace().join("crates/testkit/gateway")
}

impl Service for ClickHouse {
    fn name(&self) -> &'static str {
        "clickhouse"
    }

    fn replaced_by(&self) -> &'static str {
        CLICKHOUSE_URL
    }

    fn prepare(&self, folders: &Folders, progress: Progress<'_>) -> Result<(), ServiceError> {
        let list = gateway_folder().join("requirements.txt");
        let wanted = fs::read_to_string(&list).map_err(ServiceError::io(format!("reading {}", list.display())))?;
        let folder = folders.cache.join(ENVIRONMENT);
        let marker = folder.join("complete.txt");
        if fs::read_to_string(&marker).is_ok_and(|complete| complete == wanted) {
            return Ok(());
        }
        packages::ensure(&[&packages::PYTHON], progress)?;
        progress("clickhouse: installing the engine from PyPI (first time: about a minute)");
        let _ = fs::remove_dir_all(&folder); // an installation that was cut off, or other versions
        fs::create_dir_all(&folder).map_err(ServiceError::io(format!("creating {}", folder.display())))?;
        run(
            "clickhouse: creating a Python environment",
            Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")),
        )?;
        let mut pip = Command::new(gateway_python(folders));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&list);
        run("clickhouse: installing the engine", &mut pip)?;
        fs::write(&marker, wanted).map_err(ServiceError::io(format!("writing {}", marker.display())))
    }

    fn start(&self, folders: &Folders, folder: &Path, _: &Given) -> Result<Launch, ServiceError> {
        let mut gateway = Command::new(gateway_python(folders));
        gateway
            .arg(gateway_folder().join("clickhouse_gateway.py"))
            .arg("--data")
            .arg(folder.join("data"))
            .arg("--port-file")
            .arg(folder.join("port"))
            .args(["--user", USER])
            .env("CLICKHOUSE_GATEWAY_PASSWORD", PASSWORD)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(folder);
        let log = folder.join("clickhouse.log");
        let (process, child) = Process::spawn(&mut gateway, &log)?;
        Ok(Launch { process, child, log, address: String::new(), exports: [].into() })
    }

    fn wait_ready(&self, running: &mut Running) -> Result<(), ServiceError> {
        let port_file = running.folder.join("port");
        let mut port = None;
        wait_ready(self.name(), &running.process, &running.log, Duration::from_secs(60), || {
            port = fs::read_to_string(&port_file).ok().and_then(|text| text.trim().parse::<u16>().ok());
            port.is_some_and(answers_ping)
        })?;
        running.address = format!("http://127.0.0.1:{}", port.unwrap_or_default());
        running.exports = [
            (CLICKHOUSE_URL.to_owned(), running.address.clone()),
            (CLICKHOUSE_USER.to_owned(), USER.to_owned()),
            (CLICKHOUSE_PASSWORD.to_owned(), PASSWORD.to_owned()),
        ]
        .into();
        Ok(())
    }

    fn describe(&self) -> String {
        "the ClickHouse engine behind the test gateway".into()
    }
}

fn answers_ping(port: u16) -> bool {
    web::get(&format!("127.0.0.1:{port}"), "/ping").is_ok_and(|answer| answer.ends_with("Ok.\n"))
}
