//! What to write, where, and for how long.

use std::time::Duration;

use crate::database::{Address, AddressError};
use crate::simulate::Hazards;
use crate::simulate::plan::MAX_WRITERS;

/// Options of a simulation. Without `duration` and `transactions` it goes on until it is stopped.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database.
    pub address: Address,
    /// End after this time.
    pub duration: Option<Duration>,
    /// End after this many transactions, rolled back and skipped ones included.
    pub transactions: Option<u64>,
    /// Transactions per second, all writers together; as many as the server takes where absent.
    pub rate: Option<f64>,
    /// Writers, each with sessions of its own.
    pub writers: usize,
    /// Seed of all that is random.
    pub seed: u64,
    /// What is on.
    pub hazards: Hazards,
}

impl Options {
    /// Four writers without an end on the database at `url`.
    pub fn new(url: &str) -> Result<Self, AddressError> {
        Ok(Self::at(Address::parse(url)?))
    }

    /// Four writers without an end.
    pub fn at(address: Address) -> Self {
        Self {
            address,
            duration: None,
            transactions: None,
            rate: None,
            writers: 4,
            seed: 1,
            hazards: Hazards::default(),
        }
    }

    /// Says what cannot be done.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.writers == 0 || self.writers > MAX_WRITERS {
            return Some(format!("writers: from 1 to {MAX_WRITERS}"));
        }
        match self.rate {
            Some(rate) if !(rate.is_finite() && rate > 0.0) => Some("rate: a number above 0".to_owned()),
            _ => None,
        }
    }

    /// How many of the transactions the writer gets.
    pub(crate) fn share(&self, writer: usize) -> Option<u64> {
        let writers = self.writers as u64;
        let all = self.transactions?;
        Some(all / writers + u64::from((writer as u64) < all % writers))
    }

    /// Time between two transactions of one writer.
    pub(crate) fn period(&self) -> Option<Duration> {
        #[allow(clippy::cast_precision_loss, reason = "there are at most 200 writers")]
        let seconds = self.writers as f64 / self.rate?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transactions_are_shared_out_to_the_last() {
        let mut options = Options::new("postgres://a:b@h/shop").unwrap();
        options.transactions = Some(10);
        assert_eq!((0..4).filter_map(|writer| options.share(writer)).collect::<Vec<_>>(), [3, 3, 2, 2]);
        options.rate = Some(8.0);
        assert_eq!(options.period(), Some(Duration::from_millis(500)));
        options.rate = Some(0.0);
        assert!(options.problem().is_some());
    }
}
