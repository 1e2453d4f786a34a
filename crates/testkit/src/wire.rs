//! A wire to a server of any protocol, on which the reply to one statement can be lost.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Bytes taken at once.
const PIECE: usize = 64 << 10;

/// What the wire waits for: bytes that a client sends, whose answer it will not get.
type Waited = Arc<Mutex<Option<Vec<u8>>>>;

/// A port that leads to a server; it ends when dropped, and its connections with it.
pub struct Wire {
    address: SocketAddr,
    waited: Waited,
    accepting: JoinHandle<()>,
}

impl Wire {
    /// A wire to `host:port` that passes everything.
    pub async fn to(server: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("the port that was bound");
        let waited = Waited::default();
        let (server, shared) = (server.to_owned(), Arc::clone(&waited));
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, server.clone(), Arc::clone(&shared)));
            }
        });
        Self { address, waited, accepting }
    }

    /// Its own port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The next statement that holds this text is executed, and its reply is lost with the connection.
    pub fn lose_reply_to(&self, text: &str) {
        *self.waited.lock().expect("no panic while it is held") = Some(text.as_bytes().to_vec());
    }

    /// From now on everything passes.
    pub fn heal(&self) {
        *self.waited.lock().expect("no panic while it is held") = None;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// An error of either side ends the connection, which is all that the other side has to see.
async fn pass(mut client: TcpStream, server: String, waited: Waited) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut sent, mut answered) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        tokio::select! {
            length = client.read(&mut sent) => {
                let piece = &sent[..length?];
                if piece.is_empty() {
                    return Ok(());
                }
                server.write_all(piece).await?;
                if is_waited_for(piece, &waited) {
                    // The server has done it when it answers.
                    server.read(&mut answered).await?;
                    return Ok(());
                }
            }
            length = server.read(&mut answered) => {
                let piece = &answered[..length?];
                if piece.is_empty() {
                    return Ok(());
                }
                client.write_all(piece).await?;
            }
        }
    }
}

fn is_waited_for(piece: &[u8], waited: &Waited) -> bool {
    let mut waited = waited.lock().expect("no panic while it is held");
    let found = waited.as_ref().is_some_and(|text| piece.windows(text.len()).any(|part| part == text));
    if found {
        *waited = None;
    }
    found
}
