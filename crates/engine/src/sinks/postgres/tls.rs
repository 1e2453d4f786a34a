//! TLS as `sslmode` asks for it, through rustls.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use settle_core::sink::{FailureKind, SinkError};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{TlsFiles, Trust};
use super::failure::Outcome;

/// What makes a TLS session of a connection; none where `sslmode` asks for no TLS.
pub(super) fn connector(files: &TlsFiles) -> Outcome<Option<MakeRustlsConnect>> {
    if files.trust == Trust::Disable {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match files.trust {
        Trust::Disable | Trust::Prefer | Trust::Require => Arc::new(Anybody(provider.clone())),
        Trust::VerifyCa | Trust::VerifyFull => {
            let known = WebPkiServerVerifier::builder_with_provider(Arc::new(authorities(files)?), provider.clone())
                .build()
                .map_err(|error| refused("no certificate authority can be used").caused_by(error))?;
            match files.trust {
                Trust::VerifyFull => known,
                _ => Arc::new(AnyHost(known)),
            }
        }
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("no version of TLS can be used").caused_by(error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key).caused_by(error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| refused("sslcert and sslkey do not go together").caused_by(error))?
        }
    };
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn authorities(files: &TlsFiles) -> Outcome<RootCertStore> {
    let mut store = RootCertStore::empty();
    let found = match &files.authorities {
        Some(path) => certificates(path)?,
        // What cannot be read of the system's own is left out; without any there is none to ask.
        None => rustls_native_certs::load_native_certs().certs,
    };
    store.add_parsable_certificates(found);
    if store.is_empty() {
        let context = "no certificate authority is known here; name a PEM file with sslrootcert=… in [sink] url";
        return Err(refused(context));
    }
    Ok(store)
}

fn certificates(path: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(path).caused_by(error))
}

fn unreadable(path: &Path) -> SinkError {
    refused(format!("{} cannot be read as PEM; see that it is there and that this user may read it", path.display()))
}

fn refused(context: impl Into<String>) -> SinkError {
    SinkError::new(FailureKind::Contract, "prepare TLS", context)
}

/// `require`: nobody listens in, but it may be anybody who answers.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

/// `verify-ca`: a certificate of a known authority, whatever host it names.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(certificate, chain, host, ocsp, now) {
            // The name is the last thing that is looked at: everything else held.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
