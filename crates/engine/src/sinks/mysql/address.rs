//! Where the server is: a URL as the clients of MySQL and MariaDB take it.
//!
//! The library reads all of it but the words for TLS, which are read here as MySQL's own clients
//! know them (`ssl-mode`, `ssl-ca`, `ssl-cert`, `ssl-key`), with the files that they name.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql_async::{ClientIdentity, Opts, OptsBuilder, SslOpts};

use crate::config::Secret;

const FORM: &str = "use mysql://user@host:port/database";

/// How far the server's certificate is believed. Ordered from nothing to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    Disabled,
    Required,
    VerifyCa,
    VerifyIdentity,
}

/// A database, and how to log in to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    opts: Opts,
}

impl Address {
    /// Reads `[sink] url`: a URL without a password, or `env:NAME` or `file:PATH` of one that may
    /// hold it. Files that it names are taken from `base`. No message holds a part of the URL that
    /// may be secret.
    pub fn read(url: &str, password: Option<&Secret>, base: &Path) -> Result<Self, String> {
        let secret = ["env:", "file:"].iter().any(|prefix| url.starts_with(prefix));
        let address = match secret {
            true => Self::parse(Secret::read("[sink] url", url)?.reveal(), base)?,
            false => Self::parse(url, base)?,
        };
        if !secret && address.opts.pass().is_some_and(|password| !password.is_empty()) {
            return Err("[sink] url must not hold a password: use password = \"env:NAME\"".into());
        }
        Ok(match password {
            Some(password) => Self { opts: OptsBuilder::from_opts(address.opts).pass(Some(password.reveal())).into() },
            None => address,
        })
    }

    /// Reads a URL, password and all.
    pub fn parse(url: &str, base: &Path) -> Result<Self, String> {
        let rest = url
            .strip_prefix("mysql://")
            .or_else(|| url.strip_prefix("mariadb://"))
            .ok_or_else(|| format!("[sink] url must start with mysql://; {FORM}"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let tls = tls(query, base)?;
        // The cause may show a part of the URL.
        let opts = Opts::from_url(&format!("mysql://{place}"))
            .map_err(|_| format!("[sink] url is not a URL of a MySQL database; {FORM}"))?;
        for (part, missing) in [
            ("user", opts.user().is_none_or(str::is_empty)),
            ("host", opts.ip_or_hostname().is_empty()),
            ("database", opts.db_name().is_none_or(str::is_empty)),
        ] {
            if missing {
                return Err(format!("[sink] url names no {part}; {FORM}"));
            }
        }
        let opts = OptsBuilder::from_opts(opts)
            .ssl_opts(tls)
            // The host that is named is the one that is meant, and not a socket file of its machine.
            .prefer_socket(false)
            .tcp_keepalive(Some(Duration::from_secs(30)))
            .stmt_cache_size(STATEMENTS);
        Ok(Self { opts: opts.into() })
    }

    /// What the library connects with.
    pub(super) fn opts(&self) -> Opts {
        self.opts.clone()
    }

    /// The same server with another database.
    #[must_use]
    pub fn with_database(&self, name: &str) -> Self {
        Self { opts: OptsBuilder::from_opts(self.opts.clone()).db_name(Some(name)).into() }
    }

    /// Database name.
    pub fn database(&self) -> &str {
        self.opts.db_name().unwrap_or_default()
    }

    /// True where what is sent can be read on its way to another machine.
    pub(super) fn is_in_the_clear(&self) -> bool {
        self.opts.ssl_opts().is_none()
            && !matches!(self.opts.ip_or_hostname(), "localhost" | "127.0.0.1" | "::1" | "[::1]")
    }
}

/// Prepared statements that are kept for a connection.
const STATEMENTS: usize = 256;

/// Without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mysql://{}:{}/{}", self.opts.ip_or_hostname(), self.opts.tcp_port(), self.database())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn tls(query: &str, base: &Path) -> Result<Option<SslOpts>, String> {
    let (mut trust, mut authorities, mut certificate, mut key) = (None, None, None, None);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let file = || Some(base.join(value));
        match name {
            "ssl-mode" => trust = Some(trust_of(value)?),
            "ssl-ca" => authorities = file(),
            "ssl-cert" => certificate = file(),
            "ssl-key" => key = file(),
            _ => {
                return Err("[sink] url: of parameters ssl-mode, ssl-ca, ssl-cert and ssl-key are known".into());
            }
        }
    }
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(ClientIdentity::new(certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err("[sink] url: ssl-cert and ssl-key go together; name both files".into()),
    };
    let names_files = authorities.is_some() || identity.is_some();
    let trust = match trust {
        Some(Trust::Disabled) | None if names_files => {
            return Err(
                "[sink] url: certificates are named, but ssl-mode asks for no TLS; add ssl-mode=VERIFY_IDENTITY".into(),
            );
        }
        Some(Trust::Disabled) | None => return Ok(None),
        Some(trust) => trust,
    };
    let roots: Vec<PathBuf> = authorities.into_iter().collect();
    Ok(Some(
        SslOpts::default()
            // Authorities that are named are the only ones.
            .with_disable_built_in_roots(!roots.is_empty())
            .with_root_certs(roots.into_iter().map(Into::into).collect())
            .with_client_identity(identity)
            .with_danger_accept_invalid_certs(trust < Trust::VerifyCa)
            .with_danger_skip_domain_validation(trust < Trust::VerifyIdentity),
    ))
}

fn trust_of(word: &str) -> Result<Trust, String> {
    Ok(match word.to_ascii_uppercase().as_str() {
        "DISABLED" => Trust::Disabled,
        "REQUIRED" => Trust::Required,
        "VERIFY_CA" => Trust::VerifyCa,
        "VERIFY_IDENTITY" => Trust::VerifyIdentity,
        "PREFERRED" => {
            return Err(
                "[sink] url: ssl-mode=PREFERRED protects from nobody; use DISABLED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"
                    .into(),
            );
        }
        _ => {
            return Err(
                "[sink] url: ssl-mode is not known; use DISABLED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY".into()
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, String> {
        Address::parse(url, Path::new("/etc/settle"))
    }

    #[test]
    fn the_parts_of_a_url_are_found_and_no_secret_is_shown() {
        for (url, shown) in [
            ("mysql://ann:s%40cret@db.example:3307/shop", "mysql://db.example:3307/shop"),
            ("mariadb://ann@h/shop", "mysql://h:3306/shop"),
        ] {
            let address = parse(url).unwrap();
            assert_eq!((address.to_string().as_str(), format!("{address:?}").as_str()), (shown, shown));
        }
        assert_eq!(parse("mysql://ann:s%40cret@h/shop").unwrap().opts.pass(), Some("s@cret"));
        assert_eq!(parse("mysql://ann@h/shop").unwrap().with_database("b").database(), "b");
    }

    #[test]
    fn what_is_missing_is_named_and_nothing_of_the_url_is_repeated() {
        for (url, said) in [
            ("postgres://ann:secret@h/shop", "must start with mysql://"),
            ("mysql://h/shop", "names no user"),
            ("mysql://ann:secret@h", "names no database"),
            ("mysql://ann:secret@h:x/shop", "is not a URL"),
            ("mysql://ann:secret@h/shop?pool_min=1", "of parameters ssl-mode"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains(said) && !error.contains("secret"), "{error}");
        }
        let read = |url: &str| Address::read(url, None, Path::new(""));
        assert!(read("mysql://ann:secret@h/shop").unwrap_err().contains("password = \"env:NAME\""));
    }

    #[test]
    fn tls_is_what_the_url_asks_for() {
        let ssl = |query: &str| parse(&format!("mysql://ann@h/shop?{query}")).map(|a| a.opts.ssl_opts().cloned());
        assert_eq!(ssl(""), Ok(None));
        assert_eq!(ssl("ssl-mode=DISABLED"), Ok(None));
        for (query, accepts, skips, alone) in [
            ("ssl-mode=REQUIRED", true, true, false),
            ("ssl-mode=verify_ca&ssl-ca=ca.pem", false, true, true),
            ("ssl-mode=VERIFY_IDENTITY", false, false, false),
        ] {
            let ssl = ssl(query).unwrap().unwrap();
            let told = (ssl.accept_invalid_certs(), ssl.skip_domain_validation(), ssl.disable_built_in_roots());
            assert_eq!(told, (accepts, skips, alone), "{query}");
        }
        for query in ["ssl-mode=PREFERRED", "ssl-mode=x", "ssl-ca=ca.pem", "ssl-mode=REQUIRED&ssl-cert=c.pem"] {
            assert!(ssl(query).is_err(), "{query}");
        }
        assert!(parse("mysql://ann@db.example/shop").unwrap().is_in_the_clear());
        assert!(!parse("mysql://ann@localhost/shop").unwrap().is_in_the_clear());
        assert!(!parse("mysql://ann@db.example/shop?ssl-mode=REQUIRED").unwrap().is_in_the_clear());
    }
}
