//! Where a database is, read from a URL by the library of its client.

use std::fmt;

use settle_engine::config::Secret;

/// What kind of server it is. MariaDB is told from MySQL by asking it; its dialect is the same here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    MySql,
}

/// A database, and how to log in to it.
#[derive(Clone)]
pub struct Address(Inner);

#[derive(Clone)]
enum Inner {
    Postgres(Box<tokio_postgres::Config>),
    MySql { opts: mysql_async::Opts, mariadb: bool },
}

/// Why a URL names no database. Holds no part of the URL but its scheme: a password may stand in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither of the known schemes.
    #[error("--url: the scheme is {0}; use postgres://user:password@host:port/database or mysql://…")]
    Scheme(String),
    /// The client's library cannot read it.
    #[error("--url: not a URL of a {0} database; use {0}://user:password@host:port/database ({1})")]
    Form(&'static str, String),
    /// A part is missing.
    #[error("--url: no {0} in it; use {1}://user:password@host:port/database")]
    Missing(&'static str, &'static str),
    /// A secret that cannot be had.
    #[error("{0}")]
    Secret(String),
}

impl Address {
    /// Reads a URL; `env:NAME` and `file:PATH` name one that is kept elsewhere. The password may
    /// be given apart, as the same kind of name.
    pub fn read(url: &str, password: Option<&str>) -> Result<Self, AddressError> {
        let secret = |key, reference| Secret::read(key, reference).map_err(AddressError::Secret);
        let address = match url.starts_with("env:") || url.starts_with("file:") {
            true => Self::parse(secret("--url", url)?.reveal())?,
            false => Self::parse(url)?,
        };
        Ok(match password {
            Some(reference) => address.with_password(secret("--password", reference)?.reveal()),
            None => address,
        })
    }

    /// Reads a URL.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| AddressError::Scheme("missing".to_owned()))?;
        let address = match scheme {
            "postgres" | "postgresql" => {
                let config = url.parse().map_err(|e: tokio_postgres::Error| {
                    // Its cause names the parameter, not what stands in it.
                    AddressError::Form("postgres", e.to_string())
                })?;
                Self(Inner::Postgres(Box::new(config)))
            }
            "mysql" | "mariadb" => {
                let opts = mysql_async::Opts::from_url(&format!("mysql://{rest}"))
                    .map_err(|e| AddressError::Form("mysql", url_problem(&e)))?;
                Self(Inner::MySql { opts, mariadb: scheme == "mariadb" })
            }
            // What stands there may be anything, a password too.
            _ => return Err(AddressError::Scheme("another one".to_owned())),
        };
        for (part, found) in [("database", address.database()), ("user", address.user()), ("host", address.host())] {
            if found.is_empty() {
                return Err(AddressError::Missing(part, address.scheme()));
            }
        }
        Ok(address)
    }

    /// The address of parts that are known already.
    pub fn of_parts(engine: Engine, host: &str, port: u16, user: &str, password: &str, database: &str) -> Self {
        Self(match engine {
            Engine::Postgres => {
                let mut config = tokio_postgres::Config::new();
                config.host(host).port(port).user(user).password(password).dbname(database);
                Inner::Postgres(Box::new(config))
            }
            Engine::MySql => {
                let opts = mysql_async::OptsBuilder::default()
                    .ip_or_hostname(host)
                    .tcp_port(port)
                    .user(Some(user))
                    .pass(Some(password))
                    .db_name(Some(database));
                Inner::MySql { opts: opts.into(), mariadb: false }
            }
        })
    }

    fn with_password(self, password: &str) -> Self {
        Self(match self.0 {
            Inner::Postgres(mut config) => {
                config.password(password);
                Inner::Postgres(config)
            }
            Inner::MySql { opts, mariadb } => {
                let opts = mysql_async::OptsBuilder::from_opts(opts).pass(Some(password)).into();
                Inner::MySql { opts, mariadb }
            }
        })
    }

    /// What kind of server it is.
    pub fn engine(&self) -> Engine {
        match &self.0 {
            Inner::Postgres(_) => Engine::Postgres,
            Inner::MySql { .. } => Engine::MySql,
        }
    }

    /// True where the URL says that the server is MariaDB.
    pub fn names_mariadb(&self) -> bool {
        matches!(&self.0, Inner::MySql { mariadb: true, .. })
    }

    /// Host name or address; empty for a socket file.
    pub fn host(&self) -> &str {
        match &self.0 {
            Inner::Postgres(config) => match config.get_hosts().first() {
                Some(tokio_postgres::config::Host::Tcp(host)) => host,
                _ => "",
            },
            Inner::MySql { opts, .. } => opts.ip_or_hostname(),
        }
    }

    /// TCP port.
    pub fn port(&self) -> u16 {
        match &self.0 {
            Inner::Postgres(config) => config.get_ports().first().copied().unwrap_or(5432),
            Inner::MySql { opts, .. } => opts.tcp_port(),
        }
    }

    /// User.
    pub fn user(&self) -> &str {
        match &self.0 {
            Inner::Postgres(config) => config.get_user().unwrap_or_default(),
            Inner::MySql { opts, .. } => opts.user().unwrap_or_default(),
        }
    }

    /// Password, for the one place that sends it.
    pub fn reveal_password(&self) -> String {
        match &self.0 {
            Inner::Postgres(config) => String::from_utf8_lossy(config.get_password().unwrap_or_default()).into_owned(),
            Inner::MySql { opts, .. } => opts.pass().unwrap_or_default().to_owned(),
        }
    }

    /// Name of the database.
    pub fn database(&self) -> &str {
        match &self.0 {
            Inner::Postgres(config) => config.get_dbname().unwrap_or_default(),
            Inner::MySql { opts, .. } => opts.db_name().unwrap_or_default(),
        }
    }

    fn scheme(&self) -> &'static str {
        match self.engine() {
            Engine::Postgres => "postgres",
            Engine::MySql => "mysql",
        }
    }

    pub(super) fn postgres(&self) -> Option<&tokio_postgres::Config> {
        match &self.0 {
            Inner::Postgres(config) => Some(config),
            Inner::MySql { .. } => None,
        }
    }

    pub(super) fn mysql(&self) -> Option<&mysql_async::Opts> {
        match &self.0 {
            Inner::MySql { opts, .. } => Some(opts),
            Inner::Postgres(_) => None,
        }
    }
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}@{}:{}/{}", self.scheme(), self.user(), self.host(), self.port(), self.database())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is wrong, without the value that may be a secret.
fn url_problem(error: &mysql_async::UrlError) -> String {
    use mysql_async::UrlError;
    match error {
        UrlError::UnknownParameter { param } => format!("unknown parameter {param}"),
        UrlError::InvalidParamValue { param, .. } => format!("parameter {param} has an unknown value"),
        UrlError::FeatureRequired { feature, .. } => format!("{feature} is not built in"),
        _ => "it cannot be parsed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_url_are_found_and_the_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://ann:s%40cret@db.example:6432/shop", "postgres://ann@db.example:6432/shop"),
            ("postgresql://ann:s%40cret@h/shop", "postgres://ann@h:5432/shop"),
            ("mysql://ann:s%40cret@127.0.0.1:3307/shop", "mysql://ann@127.0.0.1:3307/shop"),
            ("mariadb://ann:s%40cret@h/shop", "mysql://ann@h:3306/shop"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), shown);
            assert_eq!(address.reveal_password(), "s@cret");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_it() {
        for url in [
            "s3cret",
            "s3cret://h/x",
            "postgres://ann:s3cret@h:x/shop",
            "postgres://ann:s3cret@h:5432",
            "postgres://:s3cret@h/shop",
            "mysql://ann:s3cret@h",
            "mysql://:s3cret@h/shop",
            "mysql://ann:s3cret@h:99999/shop",
            "mysql://ann:s3cret@h/shop?tcp_keepalive=s3cret",
            "postgres://ann:s3cret@h/shop?sslmode=s3cret",
        ] {
            let error = Address::parse(url).expect_err(url).to_string();
            assert!(error.starts_with("--url: ") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_password_may_be_kept_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "from the file\n").unwrap();
        let address = Address::read("mysql://ann@h/shop", Some(&format!("file:{}", file.display()))).unwrap();
        assert_eq!(address.reveal_password(), "from the file");
        let error = Address::read("mysql://ann@h/shop", Some("s3cret")).unwrap_err().to_string();
        assert!(error.contains("env:NAME") && !error.contains("s3cret"), "{error}");
    }
}
