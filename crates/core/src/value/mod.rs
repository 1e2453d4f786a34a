//! A JSON value read as the type of its target column: exactly, or refused.
//!
//! Invariant: a decoded [`Value`] fits the [`Kind`] that it was decoded for. A digit, a unit or a
//! form that does not fit is a [`ValueError`], never a rounded, wrapped or guessed value; and no
//! error holds the value itself.

mod any;
mod binary;
mod calendar;
mod decimal;
mod decode;
mod error;
mod exact;
mod float;
mod integer;
mod iso;
mod kind;
mod number;
mod temporal;
mod text;
mod token;

#[cfg(test)]
mod tests;

pub use calendar::{date_text, time_text, timestamp_text};
pub use decimal::Decimal;
pub use decode::decode;
pub use error::ValueError;
pub use kind::{Kind, Value};
pub use temporal::declared;
