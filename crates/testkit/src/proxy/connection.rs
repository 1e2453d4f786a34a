//! One connection of a client.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::http::Message;
use super::{Fault, Mode, Shared};

struct Stream {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Stream {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        Ok(Self { read: BufReader::new(read), write })
    }

    async fn send(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.write.write_all(&[head, body].concat()).await
    }
}

/// Serves one connection until either side ends it, or connections are refused.
pub(super) async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let mut mode = shared.mode.subscribe();
    tokio::select! {
        // An I/O error of either side ends this connection, which is all that the other side has to see.
        _ = requests(client, &shared) => {}
        _ = mode.wait_for(|mode| *mode == Mode::Refuse) => {}
    }
}

async fn requests(client: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut client = Stream::new(client)?;
    while let Some(request) = Message::request(&mut client.read).await? {
        shared.count(|counters| counters.requests += 1);
        let fault = loop {
            let mut mode = shared.mode.subscribe(); // before judging: a change after it is seen
            match shared.judge(&request) {
                Some(Fault::Hang) => {
                    shared.count(|counters| counters.hung += 1);
                    mode.changed().await.map_err(io::Error::other)?;
                }
                other => break other,
            }
        };
        match fault {
            None => {
                let answer = forward(&request, shared).await?;
                // Counted first: who waits for the answer finds it counted.
                shared.count(|counters| counters.passed += 1);
                client.send(&answer.head, &answer.body).await?;
                if answer.closes() {
                    return Ok(());
                }
            }
            Some(Fault::LoseReply) => {
                forward(&request, shared).await?;
                shared.count(|counters| counters.replies_lost += 1);
                return Ok(());
            }
            Some(Fault::CutRequest) => {
                let mut server = connect(shared).await?;
                let half = &request.body[..request.body.len() / 2];
                server.send(&request.head, half).await?;
                shared.count(|counters| counters.requests_cut += 1);
                return Ok(());
            }
            Some(Fault::Answer { status, code, body }) => {
                shared.count(|counters| counters.answered += 1);
                client.send(&answer_head(status, code, body.len()), body.as_bytes()).await?;
            }
            Some(Fault::Hang) => {}
        }
    }
    Ok(())
}

/// Gives the request to the server and takes its whole answer. Each request has a connection of its own: one that the server had
/// closed while idle would be a fault that nobody asked for.
async fn forward(request: &Message, shared: &Shared) -> io::Result<Message> {
    let mut server = connect(shared).await?;
    server.send(&request.head, &request.body).await?;
    Message::answer(&mut server.read).await
}

async fn connect(shared: &Shared) -> io::Result<Stream> {
    Stream::new(TcpStream::connect(&shared.upstream).await?)
}

fn answer_head(status: u16, code: Option<i32>, length: usize) -> Vec<u8> {
    let code = code.map(|code| format!("X-ClickHouse-Exception-Code: {code}\r\n")).unwrap_or_default();
    format!("HTTP/1.1 {status} Fault\r\nContent-Type: text/plain\r\n{code}Content-Length: {length}\r\n\r\n")
        .into_bytes()
}
