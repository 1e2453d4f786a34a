//! What the test bed of a sink gives to the suite: destinations on the real engine, in the engine's own words.

use settle_core::sink::{BoxFuture, Guarantee, Sink};

use super::table::{Contents, Kind, Table};

/// The test bed of one sink.
pub trait Stand: Send + Sync {
    /// What the sink promises.
    fn guarantee(&self) -> Guarantee;

    /// Why the sink cannot have this, as a clause behind its name; none where it has it.
    fn lacks(&self, need: Need) -> Option<&'static str>;

    /// Bytes of the longest name that a table may have; where there is no such limit, of a long one.
    fn longest_name(&self) -> usize;

    /// A new, empty destination, which is gone when it is dropped.
    fn fresh(&self) -> BoxFuture<'_, Box<dyn Destination>>;
}

/// An empty database of the engine, and all that is done to it beside the sinks under test.
pub trait Destination: Send + Sync {
    /// Another sink of a pipeline with these rules, not opened yet. Several may live at once.
    fn sink(&self, rules: &Rules) -> Box<dyn Sink>;

    /// The same, behind what [`Destination::fail`] does. Where that needs no place between the two, any
    /// sink will do.
    fn faulty_sink(&self, rules: &Rules) -> Box<dyn Sink> {
        self.sink(rules)
    }

    /// What the table shows now; nothing where it does not exist. Read by another client than the sink's.
    fn contents<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Contents>;

    /// One column of every row that lies in a table, whatever its form.
    fn texts<'a>(&'a self, table: &'a Table, column: &'a str) -> BoxFuture<'a, Vec<String>>;

    /// Makes a target table by hand.
    fn make<'a>(&'a self, table: &'a Table, form: Form<'a>) -> BoxFuture<'a, ()>;

    /// Forgets the versions of deleted rows, as a retention does that is over. Only for [`Need::HardDeletes`].
    fn purge_deletes<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, ()>;

    /// From now on faulty sinks meet this.
    fn fail(&self, fault: Fault) -> BoxFuture<'_, ()>;

    /// All is well again.
    fn heal(&self) -> BoxFuture<'_, ()>;

    /// Keeps a copy of everything that is in it.
    fn back_up(&self) -> BoxFuture<'_, ()>;

    /// Puts the copy back in place of what is in it. No sink is open then.
    fn restore(&self) -> BoxFuture<'_, ()>;
}

/// What a behaviour asks of a sink beyond the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// [`Guarantee::Atomic`]: a batch is a transaction. So it counts what was stale, keeps the group's offsets
    /// with the rows, and fences.
    Atomic,
    /// [`Guarantee::Versioned`]: nothing but versions keeps older writes out.
    Versioned,
    /// Deleted rows can be gone, and not just marked.
    HardDeletes,
    /// There is a reply between the destination and the sink, which may be lost.
    Wire,
    /// The engine has unique indexes beside the key.
    UniqueIndexes,
    /// Names hold any character, those above U+FFFF too.
    AnyCharacter,
    /// A name that is one byte longer than [`Stand::longest_name`] cannot be a table's.
    NameLimit,
}

/// What a pipeline is told about its tables. Missing ones are made.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Consumer group.
    pub group: String,
    /// The source's tables.
    pub tables: Vec<Table>,
    /// How deletes leave rows; as the sink does by itself where none.
    pub deletes: Option<Deletes>,
    /// The records carry no schema, so the columns are declared.
    pub declares: bool,
    /// Columns that a table lacks are refused, and not added.
    pub refuses_columns: bool,
    /// Ghosts are swept behind a full snapshot.
    pub sweeps: bool,
}

/// How a delete leaves the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletes {
    /// The row stays, marked.
    Soft,
    /// The row goes.
    Hard,
}

/// The form of a table that is made by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// As Settle would make it, but for a constraint by which the engine refuses rows whose column of this
    /// name is below 0.
    NeverNegative(&'a str),
    /// The user's columns alone, without those of Settle, with one row in it: the number 7 in every column that
    /// holds numbers, [`PRECIOUS`] in every other.
    WithoutVersions,
    /// All columns, but this one is the key.
    KeyedBy(&'a str),
    /// As Settle would make it, and this column is unique too. Only for [`Need::UniqueIndexes`].
    UniqueToo(&'a str),
    /// As Settle would make it, without this column.
    Without(&'a str),
    /// As Settle would make it, but this column holds another kind.
    Holding(&'a str, Kind),
    /// No table, but a view of the same columns and one row.
    View,
}

/// The text in rows of tables that are made by hand.
pub const PRECIOUS: &str = "precious";

/// What goes wrong between a sink and its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The destination makes the next batch durable, and the reply to that is lost. Only for [`Need::Wire`].
    LoseReply,
    /// The destination refuses whatever would be written, for a cause that passes, until it is healed.
    Refuse,
}
