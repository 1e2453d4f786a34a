//! TLS: a server of its own certificate stands before the real one, which has none.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use settle_core::sink::{FailureKind, Sink, SinkError};
use settle_engine::sinks::postgres::{Address, Postgres, PostgresConfig};
use settle_testkit::services;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::database::{Database, declared, parts, row};
use crate::log::{Log, batch};

/// What a client sends who asks for TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A server that speaks TLS, with a certificate for `localhost`.
struct Front {
    address: SocketAddr,
    sessions: Arc<AtomicUsize>,
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl Front {
    /// `wants_client` where it takes no client without a certificate of its authority.
    async fn open(wants_client: bool) -> Self {
        let authority = authority();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let client = match wants_client {
            true => WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build().unwrap(),
            false => WebPkiClientVerifier::no_client_auth(),
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(client)
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sessions = Arc::new(AtomicUsize::new(0));
        let (acceptor, counted) = (TlsAcceptor::from(Arc::new(config)), sessions.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, acceptor.clone(), counted.clone()));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        Self { address, sessions, folder, authority }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The real server's address, reached by this host's name and with this query.
    fn config(&self, host: &str, query: &str, database: &Database) -> PostgresConfig {
        let (login, rest) = services::postgres().rsplit_once('@').unwrap();
        let name = rest.split_once('/').unwrap().1;
        let url = format!("{login}@{host}:{}/{name}?{query}", self.address.port());
        PostgresConfig { address: Address::parse(&url, self.folder.path()).unwrap(), ..database.config() }
    }
}

/// What breaks a session is for its client to tell.
async fn serve(mut client: TcpStream, acceptor: TlsAcceptor, sessions: Arc<AtomicUsize>) -> std::io::Result<()> {
    let mut request = [0; 8];
    client.read_exact(&mut request).await?;
    assert_eq!(request, SSL_REQUEST);
    client.write_all(b"S").await?;
    let mut client = acceptor.accept(client).await?;
    sessions.fetch_add(1, Ordering::Relaxed);
    let upstream = services::postgres().rsplit_once('@').unwrap().1.split_once('/').unwrap().0;
    let mut server = TcpStream::connect(upstream).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

fn log() -> Log {
    Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"}))])
}

async fn open(config: PostgresConfig) -> Result<Postgres, SinkError> {
    let mut sink = Postgres::new(config, declared("t", &[("id", "bigint"), ("v", "text")]));
    sink.open(&parts(&log().records)).await.map(|_| sink)
}

#[test]
fn rows_go_through_tls_and_the_certificate_is_believed_as_far_as_sslmode_says() {
    let database = Database::new();
    database.wait(async {
        let front = Front::open(false).await;
        let config = |host: &str, query: &str| front.config(host, query, &database);
        let refused = async |config| {
            let error = open(config).await.unwrap_err();
            assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
            settle_core::causes::chain(&error)
        };
        let mut sink = open(config("localhost", "sslmode=verify-full&sslrootcert=ca.pem")).await.unwrap();
        let proof = sink.apply(&batch(&log().records)).await.unwrap();
        assert_eq!((proof.outcome.applied, front.sessions.load(Ordering::Relaxed)), (1, 1));
        for query in ["sslmode=prefer", "sslmode=require", "sslmode=verify-ca&sslrootcert=ca.pem"] {
            open(config("127.0.0.1", query)).await.unwrap();
        }
        let why = refused(config("127.0.0.1", "sslmode=verify-full&sslrootcert=ca.pem")).await;
        assert!(why.contains("certificate"), "{why}");
        // Authorities that are named are meant.
        std::fs::write(front.file("other.pem"), authority().pem()).unwrap();
        for mode in ["require", "verify-ca", "verify-full"] {
            let why = refused(config("localhost", &format!("sslmode={mode}&sslrootcert=other.pem"))).await;
            assert!(why.contains("certificate"), "{why}");
        }
        let error = open(config("localhost", "sslmode=verify-full&sslrootcert=none.pem")).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert!(error.context.contains("none.pem cannot be read as PEM"), "{error}");
    });
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "a")])]);
}

#[test]
fn a_certificate_of_ones_own_is_shown_where_it_is_asked_for() {
    let database = Database::new();
    database.wait(async {
        let front = Front::open(true).await;
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["settle".to_owned()]).unwrap();
        std::fs::write(front.file("own.pem"), params.signed_by(&key, &front.authority).unwrap().pem()).unwrap();
        std::fs::write(front.file("own.key"), key.serialize_pem()).unwrap();
        let query = "sslmode=verify-full&sslrootcert=ca.pem";
        assert!(open(front.config("localhost", query, &database)).await.is_err());
        open(front.config("localhost", &format!("{query}&sslcert=own.pem&sslkey=own.key"), &database)).await.unwrap();
    });
}
