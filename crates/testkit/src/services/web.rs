//! One GET to a service of this machine, for the manager, which is built without a HTTP client.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The whole answer, status line first, of `http://<address><path>`.
pub(super) fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
