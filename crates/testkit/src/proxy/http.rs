//! As much of HTTP/1.1 as a proxy needs: where a message ends. Heads and bodies are kept as the bytes that came.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::tcp::OwnedReadHalf;

const HEAD_LIMIT: usize = 1 << 20;

/// A request or an answer, byte for byte.
pub(super) struct Message {
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// What tells where a message's body ends.
enum Length {
    Exactly(usize),
    Chunked,
    UntilClose,
}

impl Message {
    /// The next request of a connection; `None` at its end.
    pub(super) async fn request(stream: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Self>> {
        let Some(head) = read_head(stream).await? else {
            return Ok(None);
        };
        let length = match length(&head)? {
            Length::UntilClose => Length::Exactly(0), // a request without a length has no body
            told => told,
        };
        let body = read_body(stream, length).await?;
        Ok(Some(Self { head, body }))
    }

    /// The answer to a request; interim answers (1xx) are dropped.
    pub(super) async fn answer(stream: &mut BufReader<OwnedReadHalf>) -> io::Result<Self> {
        loop {
            let head = read_head(stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let status = head.get(9..12).unwrap_or_default();
            if status.starts_with(b"1") {
                continue;
            }
            let length = if status == b"204" || status == b"304" { Length::Exactly(0) } else { length(&head)? };
            let body = read_body(stream, length).await?;
            return Ok(Self { head, body });
        }
    }

    /// Whether the address or the start of the body holds `text`.
    pub(super) fn contains(&self, text: &str) -> bool {
        let line = self.head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let start = &self.body[..self.body.len().min(4096)];
        [line, start].iter().any(|part| part.windows(text.len().max(1)).any(|window| window == text.as_bytes()))
    }

    /// Whether the client waits to be told to send its body.
    fn expects_continue(head: &[u8]) -> bool {
        header(head, "expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }

    /// Whether the other side will close after this message.
    pub(super) fn closes(&self) -> bool {
        header(&self.head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
            || matches!(length(&self.head), Ok(Length::UntilClose)) && self.head.starts_with(b"HTTP/")
    }
}

async fn read_head(stream: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await? == 0 {
            return if head.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        if head.len() > HEAD_LIMIT {
            return Err(io::Error::other("a head of more than 1 MiB"));
        }
    }
    if Message::expects_continue(&head) {
        return Err(io::Error::other("`Expect: 100-continue` is not spoken by this proxy"));
    }
    Ok(Some(head))
}

async fn read_body(stream: &mut BufReader<OwnedReadHalf>, length: Length) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match length {
        Length::Exactly(size) => {
            body.resize(size, 0);
            stream.read_exact(&mut body).await?;
        }
        Length::UntilClose => {
            stream.read_to_end(&mut body).await?;
        }
        Length::Chunked => loop {
            let start = body.len();
            read_line(stream, &mut body).await?;
            let line = String::from_utf8_lossy(&body[start..]).into_owned();
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(io::Error::other)?;
            if size == 0 {
                while read_line(stream, &mut body).await? > 2 {} // trailers, then an empty line
                break;
            }
            let start = body.len();
            body.resize(start + size + 2, 0);
            stream.read_exact(&mut body[start..]).await?;
        },
    }
    Ok(body)
}

async fn read_line(stream: &mut BufReader<OwnedReadHalf>, into: &mut Vec<u8>) -> io::Result<usize> {
    match stream.read_until(b'\n', into).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => Ok(read),
    }
}

fn length(head: &[u8]) -> io::Result<Length> {
    if header(head, "transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked")) {
        return Ok(Length::Chunked);
    }
    match header(head, "content-length") {
        Some(value) => value.parse().map(Length::Exactly).map_err(io::Error::other),
        None => Ok(Length::UntilClose),
    }
}

fn header(head: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    text.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}
