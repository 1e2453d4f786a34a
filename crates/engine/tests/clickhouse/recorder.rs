//! A forwarder that keeps the inserts it saw, and can lose the reply of one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Default)]
struct Seen {
    /// Request line and body of every insert.
    inserts: Vec<(String, Vec<u8>)>,
    /// The reply of the n-th insert from now is lost.
    lose: Option<usize>,
}

/// Ends when dropped.
pub struct Recorder {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Recorder {
    pub async fn before(upstream: &str) -> Self {
        let upstream = upstream.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, upstream.clone(), shared.clone()));
            }
        });
        Self { address, seen, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The server executes the `nth` insert from now (from 1), and the reply is lost.
    pub fn lose_insert(&self, nth: usize) {
        self.seen.lock().unwrap().lose = Some(nth);
    }

    /// The bodies of the inserts since the last call.
    pub fn take_inserts(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.seen.lock().unwrap().inserts).into_iter().map(|(_, body)| body).collect()
    }

    /// The request lines of the inserts since the last call of `take_inserts`.
    pub fn insert_addresses(&self) -> Vec<String> {
        self.seen.lock().unwrap().inserts.iter().map(|(line, _)| line.clone()).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One request a connection: the answer ends with it.
async fn serve(mut client: TcpStream, upstream: String, seen: Arc<Mutex<Seen>>) {
    let Some((head, body)) = request(&mut client).await else { return };
    let line = head.lines().next().unwrap_or_default().to_owned();
    let is_lost = line.contains("INSERT") && {
        let mut seen = seen.lock().unwrap();
        seen.inserts.push((line, body.clone()));
        seen.lose = seen.lose.map(|left| left - 1);
        let is_lost = seen.lose == Some(0);
        if is_lost {
            seen.lose = None;
        }
        is_lost
    };
    let mut server = TcpStream::connect(&upstream).await.unwrap();
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    server.write_all(head.as_bytes()).await.unwrap();
    server.write_all(&body).await.unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await.unwrap();
    if !is_lost {
        // The client may have left; that is its matter.
        let _ = client.write_all(&answer).await;
    }
}

/// A request with a Content-Length: head and body.
async fn request(client: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if client.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let length: usize = length.unwrap_or(0);
    while bytes.len() < end + length {
        if client.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, bytes[end..].to_vec()))
}
