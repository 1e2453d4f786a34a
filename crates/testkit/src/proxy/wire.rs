//! Faults between Settle and a server whose protocol is no HTTP, such as PostgreSQL or MySQL: bytes are passed on as
//! they are, until a text in what the client sends is the one whose reply is to be lost. TLS would hide it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::door::Door;

/// A proxy on a port of its own; it ends when dropped.
pub struct WireProxy {
    shared: Arc<Shared>,
    door: Door,
}

struct Shared {
    upstream: String,
    losing: Mutex<Option<Losing>>,
    lost: AtomicU64,
    /// Rises when the open connections are to end.
    cut: watch::Sender<u64>,
}

/// What is waited for.
#[derive(Clone)]
struct Losing {
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl WireProxy {
    /// A proxy before `host:port` that passes everything.
    pub async fn before(upstream: &str) -> Self {
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            losing: Mutex::default(),
            lost: AtomicU64::new(0),
            cut: watch::Sender::new(0),
        });
        let serving = Arc::clone(&shared);
        let door = Door::open(move |stream| {
            tokio::spawn(serve(stream, Arc::clone(&serving)));
        })
        .await;
        Self { shared, door }
    }

    /// Its own address.
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// From now on everything passes.
    pub fn pass(&self) {
        self.set(None);
        self.door.listen();
    }

    /// The next time that a client sends `request`, the server gets it, and the client's connection is closed instead
    /// of the answer, once that has come: once it holds `reply`, where this is not empty.
    pub fn lose_reply(&self, request: &str, reply: &str) {
        self.set(Some(Losing { request: request.into(), reply: reply.into() }));
        self.door.listen();
    }

    /// From now on connections are refused by the system; the open ones are closed.
    pub async fn refuse(&self) {
        self.set(None);
        self.door.refuse().await;
        self.shared.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Replies that were lost so far.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }

    fn set(&self, losing: Option<Losing>) {
        *locked(&self.shared.losing) = losing;
    }
}

impl Drop for WireProxy {
    fn drop(&mut self) {
        self.shared.cut.send_modify(|cuts| *cuts += 1);
    }
}

/// Serves one connection until either side ends it, or a reply of it is lost.
async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let mut cut = shared.cut.subscribe();
    let Ok(server) = TcpStream::connect(&shared.upstream).await else { return };
    // Statements are small, and each waits for its answer.
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let losing = Mutex::new(None);
    tokio::select! {
        // An I/O error of either side ends this connection, which is all that the other side has to see.
        _ = up(from_client, to_server, &shared, &losing) => {}
        _ = down(from_server, to_client, &shared, &losing) => {}
        _ = cut.changed() => {}
    }
}

/// From the client to the server.
async fn up(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    losing: &Mutex<Option<Losing>>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    // The end of what came before: a text may be cut anywhere.
    let mut tail = Vec::new();
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        tail.extend_from_slice(&buffer[..read]);
        let kept = {
            let mut wanted = locked(&shared.losing);
            let is_here = wanted.as_ref().is_some_and(|wanted| contains(&tail, &wanted.request));
            if is_here {
                // Before it is passed on: nothing of the answer may come through.
                *locked(losing) = wanted.take();
            }
            wanted.as_ref().map_or(0, |wanted| wanted.request.len().saturating_sub(1))
        };
        tail.drain(..tail.len().saturating_sub(kept));
        to.write_all(&buffer[..read]).await?;
    }
}

/// From the server to the client.
async fn down(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    losing: &Mutex<Option<Losing>>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut answer = Vec::new();
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let wanted = locked(losing).clone();
        let Some(wanted) = wanted else {
            to.write_all(&buffer[..read]).await?;
            continue;
        };
        answer.extend_from_slice(&buffer[..read]);
        if contains(&answer, &wanted.reply) {
            shared.lost.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
    }
}

fn locked(losing: &Mutex<Option<Losing>>) -> MutexGuard<'_, Option<Losing>> {
    losing.lock().expect("no panic while changing")
}

/// Every text holds the empty one.
fn contains(bytes: &[u8], text: &[u8]) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text)
}
