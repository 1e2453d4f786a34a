//! Asking a run to stop: the first request drains, the second aborts.

use std::sync::Arc;

use tokio::sync::watch;

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// Go on.
    #[default]
    None,
    /// Take in nothing more; make durable and commit what is in flight, then end.
    Drain,
    /// End at once; what is in flight will be delivered again.
    Abort,
}

/// Hears requests. Clones hear the same.
#[derive(Clone, Debug)]
pub struct Shutdown {
    request: watch::Receiver<Request>,
    // Keeps the channel open where nobody else will ever ask.
    _sender: Arc<watch::Sender<Request>>,
}

/// Makes requests.
#[derive(Clone, Debug)]
pub struct Stopper {
    sender: Arc<watch::Sender<Request>>,
}

/// A pair of a stopper and what hears it.
pub fn channel() -> (Stopper, Shutdown) {
    let (sender, request) = watch::channel(Request::None);
    let sender = Arc::new(sender);
    (Stopper { sender: sender.clone() }, Shutdown { request, _sender: sender })
}

impl Stopper {
    /// Asks once more: first to drain, then to abort.
    pub fn ask(&self) {
        self.sender.send_modify(|request| {
            *request = if *request == Request::None { Request::Drain } else { Request::Abort };
        });
    }
}

impl Shutdown {
    /// What was asked for so far.
    pub fn request(&self) -> Request {
        *self.request.borrow()
    }

    /// Waits until at least `request` is asked for.
    pub async fn at_least(&mut self, request: Request) {
        // The sender lives as long as `self`, so this ends only when the request is there.
        let _ = self.request.wait_for(|asked| *asked >= request).await;
    }
}
