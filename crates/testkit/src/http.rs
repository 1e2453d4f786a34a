//! The HTTP client of all tests.

use std::sync::OnceLock;

/// A client without a pool: each test has a runtime of its own, and a pooled connection dies with the runtime that opened it.
pub(crate) fn client() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        // Another part of the process may have chosen a provider already; then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().build().expect("an HTTP client")
    })
}
