//! One list of behaviours that every sink passes against its real engine.
//!
//! A sink joins with a test bed, its [`Stand`], and one line in the list of members, which says how many behaviours it
//! has. What it cannot have by its guarantee or its engine is named with why, never skipped in silence. Histories are
//! made up and delivered as the engine does it, by the lanes, the fold and the unfolding of core; what a table shows
//! is read by another client than the sink's, and compared with a plain model.

mod behaviour;
mod behaviours;
mod event;
mod model;
mod report;
mod run;
mod scene;
mod source;
mod stand;
mod table;

pub use report::{Member, run};
pub use stand::{Deletes, Destination, Fault, Form, Need, PRECIOUS, Rules, Stand};
pub use table::{Column, Contents, Kind, Live, Row, RowKey, Shown, Table, text};
