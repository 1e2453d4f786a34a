//! Where clients come in: a port that listens, or at which the system refuses them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

type Serve = Arc<dyn Fn(TcpStream) + Send + Sync>;

/// A port of its own; it closes when dropped.
pub(super) struct Door {
    address: SocketAddr,
    serve: Serve,
    accepting: Mutex<Accepting>,
}

enum Accepting {
    Yes(JoinHandle<()>),
    /// The port is bound and nobody listens: the system refuses connections, and gives the port to nobody else.
    Refused(TcpSocket),
    Changing,
}

impl Door {
    /// A free port at which each client is given to `serve`.
    pub(super) async fn open(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let serve: Serve = Arc::new(serve);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("the port that was bound");
        let accepting = Mutex::new(Accepting::Yes(accept(listener, Arc::clone(&serve))));
        Self { address, serve, accepting }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on clients are taken.
    pub(super) fn listen(&self) {
        let mut accepting = self.accepting();
        *accepting = match std::mem::replace(&mut *accepting, Accepting::Changing) {
            Accepting::Refused(socket) => {
                let listener = socket.listen(128).expect("listening on the port we hold");
                Accepting::Yes(accept(listener, Arc::clone(&self.serve)))
            }
            other => other,
        };
    }

    /// From now on clients are refused.
    pub(super) async fn refuse(&self) {
        let before = std::mem::replace(&mut *self.accepting(), Accepting::Changing);
        let after = match before {
            Accepting::Yes(task) => {
                task.abort();
                let _ = task.await; // cancelled; now its listener is closed
                Accepting::Refused(self.bind())
            }
            other => other,
        };
        *self.accepting() = after;
    }

    fn accepting(&self) -> MutexGuard<'_, Accepting> {
        self.accepting.lock().expect("no panic while changing")
    }

    fn bind(&self) -> TcpSocket {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("an option of a socket");
        socket.bind(self.address).expect("binding the port we had");
        socket
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Ok(Accepting::Yes(task)) = self.accepting.get_mut() {
            task.abort();
        }
    }
}

fn accept(listener: TcpListener, serve: Serve) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            serve(stream);
        }
    })
}
