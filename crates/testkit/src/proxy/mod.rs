//! Faults between Settle and an HTTP server such as ClickHouse: a proxy that refuses, hangs, loses replies or answers by itself.
//! For what is no HTTP see [`WireProxy`].
//!
//! It decides for each request, also on a connection that is kept alive. A request is read whole before it is judged, so what is
//! forwarded is complete unless the fault is to cut it.

mod connection;
mod door;
mod http;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::services::ClickHouseAddress;
use door::Door;
pub use wire::WireProxy;

const LIMIT: Duration = Duration::from_secs(30);

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Holds the request, unanswered and not forwarded, until the fault is changed; then it is judged anew.
    Hang,
    /// The server executes the request; the client's connection is closed before any byte of the answer.
    LoseReply,
    /// The server gets the first half of the body and then a closed connection; so does the client.
    CutRequest,
    /// The request never reaches the server; the client gets this answer.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The value of `X-ClickHouse-Exception-Code`.
        code: Option<i32>,
        /// The body.
        body: String,
    },
}

/// A fault with the requests it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    fault: Fault,
    containing: Option<String>,
    times: Option<u64>,
}

impl Plan {
    /// For every request, until told otherwise.
    pub fn new(fault: Fault) -> Self {
        Self { fault, containing: None, times: None }
    }

    /// Only for requests whose address (as sent, with its %-escapes) or first 4 KiB of body contain `text`, e.g. `INSERT`.
    #[must_use]
    pub fn containing(mut self, text: &str) -> Self {
        self.containing = Some(text.to_owned());
        self
    }

    /// Only for the next `times` such requests; later ones pass.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

/// What has happened so far. Each request is counted in `requests` when it arrives and in one of the others when it is judged.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Requests that arrived whole.
    pub requests: u64,
    /// Forwarded, and the answer given back.
    pub passed: u64,
    /// Held; counted again when they are judged anew.
    pub hung: u64,
    /// Executed by the server with the reply lost.
    pub replies_lost: u64,
    /// Cut in their body.
    pub requests_cut: u64,
    /// Answered by the proxy.
    pub answered: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    Pass,
    Refuse,
    Plan(Plan),
}

struct Shared {
    upstream: String,
    mode: watch::Sender<Mode>,
    counters: watch::Sender<Counters>,
}

impl Shared {
    fn count(&self, what: impl FnOnce(&mut Counters)) {
        self.counters.send_modify(what);
    }

    /// What happens to this request now; uses up one of the plan's times.
    fn judge(&self, request: &http::Message) -> Option<Fault> {
        let mut fault = None;
        self.mode.send_if_modified(|mode| {
            let Mode::Plan(plan) = mode else { return false };
            if plan.times == Some(0) || !plan.containing.as_ref().is_none_or(|text| request.contains(text)) {
                return false;
            }
            fault = Some(plan.fault.clone());
            if let Some(left) = plan.times.as_mut() {
                *left -= 1;
            }
            false // nobody who hangs is to be woken by this
        });
        fault
    }
}

/// A proxy on a port of its own; it ends when dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    door: Door,
}

impl Proxy {
    /// A proxy before `upstream` (`http://host:port`) that passes everything.
    pub async fn before(upstream: &str) -> Self {
        let authority = upstream.trim_start_matches("http://").trim_end_matches('/');
        assert!(!authority.contains('/'), "the proxy speaks plain HTTP to host:port, not {upstream}");
        let shared = Arc::new(Shared {
            upstream: authority.to_owned(),
            mode: watch::Sender::new(Mode::Pass),
            counters: watch::Sender::new(Counters::default()),
        });
        let serving = Arc::clone(&shared);
        let door = Door::open(move |stream| {
            serving.count(|counters| counters.connections += 1);
            tokio::spawn(connection::serve(stream, Arc::clone(&serving)));
        })
        .await;
        Self { shared, door }
    }

    /// A proxy before the ClickHouse under test, and its address with the same user.
    pub async fn before_clickhouse() -> (Self, ClickHouseAddress) {
        let server = crate::services::clickhouse();
        let proxy = Self::before(&server.url).await;
        let address = ClickHouseAddress { url: proxy.url(), ..server };
        (proxy, address)
    }

    /// Its own address.
    pub fn url(&self) -> String {
        format!("http://{}", self.door.address())
    }

    /// From now on requests pass; held ones go on.
    pub fn pass(&self) {
        self.door.listen();
        self.shared.mode.send_replace(Mode::Pass);
    }

    /// From now on requests meet the plan's fault.
    pub fn plan(&self, plan: Plan) {
        self.door.listen();
        self.shared.mode.send_replace(Mode::Plan(plan));
    }

    /// From now on connections are refused by the system; the open ones are closed.
    pub async fn refuse(&self) {
        self.shared.mode.send_replace(Mode::Refuse);
        self.door.refuse().await;
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        *self.shared.counters.borrow()
    }

    /// Waits until the counters are as wanted; panics with them after 30 seconds.
    pub async fn wait_until(&self, wanted: impl Fn(&Counters) -> bool) -> Counters {
        let mut counters = self.shared.counters.subscribe();
        let found = tokio::time::timeout(LIMIT, counters.wait_for(|now| wanted(now))).await;
        match found {
            Ok(seen) => *seen.expect("the sender lives as long as the proxy"),
            Err(_) => panic!("not reached within {LIMIT:?}: {:?}", self.counters()),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.mode.send_replace(Mode::Refuse); // ends the open connections
    }
}
