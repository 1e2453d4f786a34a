//! System packages the services need: installed when we may, named with the exact command when we may not.

use std::process::{Command, Stdio};

use super::{Progress, ServiceError, process::run};

/// A program and how to have it.
pub struct Tool {
    /// What it is for people.
    name: &'static str,
    /// A command that succeeds when it is there.
    probe: &'static [&'static str],
    /// Its Debian package.
    package: &'static str,
}

/// A Java runtime.
pub const JAVA: Tool = Tool { name: "java", probe: &["java", "-version"], package: "default-jre-headless" };
/// Maven, which resolves Java artifacts with their dependencies.
pub const MAVEN: Tool = Tool { name: "mvn", probe: &["mvn", "-version"], package: "maven" };
/// The PostgreSQL server, whose programs Debian keeps out of PATH.
pub const POSTGRES: Tool = Tool {
    name: "the PostgreSQL server",
    probe: &["sh", "-c", "command -v initdb || ls /usr/lib/postgresql/*/bin/initdb"],
    package: "postgresql",
};
/// The programs of the MariaDB server, without the server of the machine that another package runs, and what makes its data folder.
pub const MARIADB: Tool = Tool {
    name: "the MariaDB server",
    probe: &[
        "sh",
        "-c",
        "PATH=$PATH:/usr/sbin; command -v mariadbd && command -v mariadb-install-db && command -v my_print_defaults",
    ],
    package: "mariadb-server-core mariadb-client-core",
};
/// Python with its `venv` module.
pub const PYTHON: Tool =
    Tool { name: "python3 with venv", probe: &["python3", "-c", "import ensurepip, venv"], package: "python3-venv" };
/// What the C code of the Kafka client is built with.
pub const BUILD: [Tool; 4] = [
    Tool { name: "cc", probe: &["cc", "--version"], package: "gcc libc6-dev" },
    Tool { name: "c++", probe: &["c++", "--version"], package: "g++" },
    Tool { name: "make", probe: &["make", "--version"], package: "make" },
    Tool { name: "perl", probe: &["perl", "-v"], package: "perl" },
];

/// Makes sure that `tools` are there. As root on Debian it installs them; else it fails with the command to run.
pub fn ensure(tools: &[&Tool], progress: Progress<'_>) -> Result<(), ServiceError> {
    let missing: Vec<&&Tool> = tools.iter().filter(|tool| !is_there(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.package.split(' ')).collect();
    let may_install = rustix::process::geteuid().is_root() && found(&["apt-get", "--version"]);
    if !may_install {
        let command = format!("sudo apt-get install --no-install-recommends {}", packages.join(" "));
        return Err(ServiceError::Missing { missing: names, command });
    }
    progress(&format!("installing {} (for {names})", packages.join(" ")));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").args(arguments);
        command
    };
    run("apt-get update", &mut apt(&["update"]))?;
    let install = [&["install", "--yes", "--no-install-recommends"], packages.as_slice()].concat();
    run("apt-get install", &mut apt(&install))?;
    match missing.iter().find(|tool| !is_there(tool)) {
        None => Ok(()),
        Some(tool) => Err(ServiceError::Missing {
            missing: format!("{} (still, after `apt-get install {}`)", tool.name, tool.package),
            command: tool.probe.join(" "),
        }),
    }
}

fn is_there(tool: &Tool) -> bool {
    found(tool.probe)
}

fn found(probe: &[&str]) -> bool {
    probe.split_first().is_some_and(|(program, arguments)| {
        let status = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    })
}
