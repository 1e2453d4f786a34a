//! One behaviour: what it is called, what it needs, how it is checked.

use std::pin::Pin;

use super::stand::{Need, Stand};

/// How a behaviour is checked.
pub(super) type Check = for<'s> fn(&'s dyn Stand) -> Pin<Box<dyn Future<Output = ()> + 's>>;

/// A property that every sink has which has what it needs.
pub(super) struct Behaviour {
    pub(super) name: &'static str,
    pub(super) needs: &'static [Need],
    /// Panics with what was expected.
    pub(super) check: Check,
}

impl Behaviour {
    /// Why a sink cannot have it; none where it must.
    pub(super) fn is_not_for(&self, stand: &dyn Stand) -> Option<&'static str> {
        self.needs.iter().find_map(|need| stand.lacks(*need))
    }
}
