//! Where the server is: a URL as every PostgreSQL client takes it, read by the client's library.
//!
//! What the library does not know of a URL are the words for TLS that check certificates; they are
//! read here, with the files that they name.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::config::Secret;

/// How far the server's certificate is believed. Ordered from nothing to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// No TLS.
    Disable,
    /// TLS where the server has it, whatever its certificate.
    Prefer,
    /// TLS, whatever the certificate.
    Require,
    /// A certificate of a known authority.
    VerifyCa,
    /// That, and it names the host.
    VerifyFull,
}

/// What is asked of TLS, and the files for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `sslmode`
    pub trust: Trust,
    /// `sslrootcert`: PEM of the authorities; the system's where none.
    pub authorities: Option<PathBuf>,
    /// `sslcert` and `sslkey`: PEM of our own certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A database, and how to log in to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) client: Box<tokio_postgres::Config>,
    pub(super) tls: TlsFiles,
}

const FORM: &str = "use postgres://user@host:port/database";

impl Address {
    /// Reads `[sink] url`: a URL without a password, or `env:NAME` or `file:PATH` of one that may
    /// hold it. Files that it names are taken from `base`. No message holds a part of the URL that
    /// may be secret.
    pub fn read(url: &str, password: Option<&Secret>, base: &Path) -> Result<Self, String> {
        let secret = ["env:", "file:"].iter().any(|prefix| url.starts_with(prefix));
        let mut address = match secret {
            true => Self::parse(Secret::read("[sink] url", url)?.reveal(), base)?,
            false => Self::parse(url, base)?,
        };
        if !secret && address.client.get_password().is_some() {
            return Err("[sink] url must not hold a password: use password = \"env:NAME\"".into());
        }
        if let Some(password) = password {
            address.client.password(password.reveal());
        }
        Ok(address)
    }

    /// Reads a URL, password and all.
    pub fn parse(url: &str, base: &Path) -> Result<Self, String> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(format!("[sink] url must start with postgres://; {FORM}"));
        }
        let (url, tls) = without_tls(url, base)?;
        let mut client = tokio_postgres::Config::from_str(&url).map_err(|error| {
            // Its cause names a parameter, and shows no value.
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            format!("[sink] url is not a URL of a PostgreSQL database ({cause}); {FORM}")
        })?;
        for (part, missing) in [
            ("user", client.get_user().is_none_or(str::is_empty)),
            ("host", client.get_hosts().is_empty() && client.get_hostaddrs().is_empty()),
            ("database", client.get_dbname().is_none_or(str::is_empty)),
        ] {
            if missing {
                return Err(format!("[sink] url names no {part}; {FORM}"));
            }
        }
        client.ssl_mode(match tls.trust {
            Trust::Disable => SslMode::Disable,
            Trust::Prefer => SslMode::Prefer,
            Trust::Require | Trust::VerifyCa | Trust::VerifyFull => SslMode::Require,
        });
        // Of several hosts the one that can be written is meant.
        if client.get_hosts().len().max(client.get_hostaddrs().len()) > 1 {
            client.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { client: Box::new(client), tls })
    }

    /// Database name.
    pub fn database(&self) -> &str {
        self.client.get_dbname().unwrap_or_default()
    }
}

/// Without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.client.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        });
        let mut hosts: Vec<String> = named.collect();
        if hosts.is_empty() {
            hosts = self.client.get_hostaddrs().iter().map(ToString::to_string).collect();
        }
        let ports = self.client.get_ports();
        let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let hosts: Vec<String> = hosts.iter().enumerate().map(|(at, host)| format!("{host}:{}", port(at))).collect();
        write!(f, "postgres://{}/{}", hosts.join(","), self.database())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The URL without its parameters for TLS, and what they say.
fn without_tls(url: &str, base: &Path) -> Result<(String, TlsFiles), String> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut trust, mut authorities, mut certificate, mut key) = (None, None, None, None);
    let mut rest = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let file = || decoded(value).map(|path| Some(base.join(path)));
        match name {
            "sslmode" => trust = Some(trust_of(value)?),
            "sslrootcert" if value == "system" => authorities = None,
            "sslrootcert" => authorities = file()?,
            "sslcert" => certificate = file()?,
            "sslkey" => key = file()?,
            _ => rest.push(parameter),
        }
    }
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("[sink] url: sslcert and sslkey go together; name both files".into()),
    };
    let trust = match trust.unwrap_or(Trust::Prefer) {
        // As libpq does: authorities that are named are meant.
        Trust::Require if authorities.is_some() => Trust::VerifyCa,
        trust => trust,
    };
    if trust < Trust::Require && (authorities.is_some() || identity.is_some()) {
        return Err(
            "[sink] url: certificates are named, but sslmode allows a connection without TLS; add sslmode=verify-full"
                .into(),
        );
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Ok((format!("{address}{query}"), TlsFiles { trust, authorities, identity }))
}

fn trust_of(word: &str) -> Result<Trust, String> {
    Ok(match word {
        "disable" => Trust::Disable,
        "prefer" => Trust::Prefer,
        "require" => Trust::Require,
        "verify-ca" => Trust::VerifyCa,
        "verify-full" => Trust::VerifyFull,
        _ => {
            return Err(
                "[sink] url: sslmode is not known; use disable, prefer, require, verify-ca or verify-full".into()
            );
        }
    })
}

/// Takes %-escapes out.
fn decoded(text: &str) -> Result<String, String> {
    let malformed = || "[sink] url: a %-escape in a file's name is not UTF-8".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = match (first, tail) {
            (b'%', [high, low, ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                digit(*high).zip(digit(*low)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            _ => None,
        };
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).map_err(|_| malformed())
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
            ("postgres://ann:s%40cret@db.example:6432/shop", "postgres://db.example:6432/shop"),
            ("postgresql://ann:s%40cret@h/shop?connect_timeout=3", "postgres://h:5432/shop"),
            ("postgres://ann@a:1,b:2/shop", "postgres://a:1,b:2/shop"),
        ] {
            let address = parse(url).unwrap();
            assert_eq!((address.to_string().as_str(), format!("{address:?}").as_str()), (shown, shown));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_it() {
        for url in [
            "s3cret",
            "http://h/x",
            "postgres://ann:s3cret@h:x/shop",
            "postgres://ann:s3cret@h:5432",
            "postgres://h/shop",
            "postgres://ann:s3cret@h/shop?sslmode=s3cret",
            "postgres://ann:s3cret@h/shop?sslcert=s3cret",
            "postgres://ann:s3cret@h/shop?sslrootcert=s3cret",
            "postgres://ann:s3cret@h/shop?connect_timeout=s3cret",
        ] {
            let error = parse(url).expect_err(url);
            assert!(error.starts_with("[sink] url") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_password_is_named_and_not_written() {
        let error = Address::read("postgres://ann:s3cret@h/shop", None, Path::new("")).unwrap_err();
        assert_eq!(error, "[sink] url must not hold a password: use password = \"env:NAME\"");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, "postgres://ann:s3cret@h/shop\n").unwrap();
        let address = Address::read(&format!("file:{}", file.display()), None, Path::new("")).unwrap();
        assert_eq!(address.client.get_password(), Some(&b"s3cret"[..]));
    }

    #[test]
    fn tls_is_what_the_words_of_libpq_say() {
        let tls = |query: &str| parse(&format!("postgres://ann@h/shop{query}")).unwrap().tls;
        let files = |trust| TlsFiles { trust, authorities: None, identity: None };
        assert_eq!(tls(""), files(Trust::Prefer));
        assert_eq!(tls("?sslmode=disable"), files(Trust::Disable));
        assert_eq!(tls("?sslmode=verify-full&sslrootcert=system"), files(Trust::VerifyFull));
        let named = tls("?sslrootcert=my%20ca.pem&sslmode=require&application_name=x");
        assert_eq!((named.trust, named.authorities), (Trust::VerifyCa, Some("/etc/settle/my ca.pem".into())));
        let own = tls("?sslmode=verify-ca&sslcert=/c.pem&sslkey=k.pem").identity;
        assert_eq!(own, Some(("/c.pem".into(), "/etc/settle/k.pem".into())));
    }
}
