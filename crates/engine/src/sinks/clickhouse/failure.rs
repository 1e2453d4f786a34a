//! What a ClickHouse error number means for the run.
//!
//! A number that is not listed stops the run ([`FailureKind::Contract`]): nothing is retried by
//! accident. The server's text is shown, except where it may quote a row.

use settle_core::sink::{Effect, FailureKind, SinkError};

/// What was being done when the server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Rows were sent.
    Insert,
    /// Anything else: a query, DDL.
    Statement,
}

/// An error as the server reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerError {
    /// ClickHouse's error number; 0 where the answer named none.
    pub(crate) code: u32,
    /// Its text.
    pub(crate) text: String,
    /// True where a part of the statement may have been executed: it failed while running.
    pub(crate) behind_ok: bool,
}

/// The server's text says that one block would spread over too many partitions.
pub(crate) fn is_too_many_partitions(error: &SinkError) -> bool {
    error
        .source
        .as_ref()
        .and_then(|source| source.downcast_ref::<ServerError>())
        .is_some_and(ServerError::is_partitions)
}

impl ServerError {
    fn is_partitions(&self) -> bool {
        self.code == 252 && self.text.contains("Too many partitions for single INSERT block")
    }

    /// How the failure policy treats it.
    pub(crate) fn kind(&self, doing: Doing) -> FailureKind {
        match self.code {
            // Credentials, privileges, quota of a role.
            192..=195 | 291 | 497 | 511 | 512 | 516 | 720 | 767 => FailureKind::Denied,
            // Read-only user, replica or table; disk full; too many errors on the disk.
            164 | 242 | 243 | 774 => FailureKind::NotWritable,
            // One number, two meanings: only the text tells parts (wait) from partitions (cut).
            252 if self.is_partitions() => FailureKind::Contract,
            // Parts, memory, queries, sessions, pools, quotas, mutations.
            241 | 252 | 173 | 201..=203 | 364 | 439 | 574 | 692 | 700 | 745 | 749 | 762 | 776..=778 | 1019 | 1020 => {
                FailureKind::Overloaded
            }
            // Time-outs, network, Keeper, replicas, shutdown.
            159 | 198 | 209 | 210 | 225 | 236 | 254 | 265 | 279 | 285 | 286 | 297 | 319 | 394 | 410 | 415 | 425
            | 519 | 529 | 571 | 733 | 735 | 999 => FailureKind::Unreachable,
            // A constraint of the table.
            469 if doing == Doing::Insert => FailureKind::Constraint,
            // A value that the column does not take.
            6 | 26 | 27 | 38 | 41 | 53 | 69 | 70 | 72 | 117 | 131 | 321 | 349 | 376 | 407 | 441 | 467 | 675 | 676
            | 691
                if doing == Doing::Insert =>
            {
                FailureKind::Row
            }
            _ => FailureKind::Contract,
        }
    }

    /// Whether rows may have been written. What is refused before the first block is written had
    /// no effect; anything else may have written a part of its partitions.
    fn effect(&self, kind: FailureKind) -> Effect {
        let before_the_first_block = match kind {
            FailureKind::Denied | FailureKind::Row | FailureKind::Constraint => true,
            // Columns, tables, databases and settings that do not exist, syntax, partitions.
            FailureKind::Contract => matches!(self.code, 16 | 47 | 50 | 60 | 62 | 81 | 115 | 252 | 452),
            FailureKind::NotWritable => self.code != 243,
            FailureKind::Overloaded => self.code == 252 || self.code == 202,
            _ => false,
        };
        if before_the_first_block && !self.behind_ok { Effect::None } else { Effect::Unknown }
    }

    /// The error of the sink.
    pub(crate) fn into_sink_error(self, operation: &str, doing: Doing) -> SinkError {
        let kind = self.kind(doing);
        let shown = match kind {
            FailureKind::Row | FailureKind::Constraint => without_values(&self.text),
            _ => self.text.clone(),
        };
        let hint = match (kind, self.code) {
            (FailureKind::Denied, 497) => "; grant what it names to the user of [sink]",
            (FailureKind::Denied, _) => "; check `user` and `password` in [sink]",
            (FailureKind::NotWritable, 243) => "; free space on the server's disk",
            (FailureKind::NotWritable, _) => "; the user, the table or the replica is read-only",
            (_, 115) => "; remove the setting from [sink.settings], or use a server that knows it",
            (_, 452) => "; the server's profile pins a setting that settle must send",
            _ => "",
        };
        let code = if self.code == 0 { String::new() } else { format!("code {}: ", self.code) };
        let effect = self.effect(kind);
        let error = SinkError::new(kind, operation, format!("the server refused: {code}{}{hint}", tidy(&shown)));
        let error = if effect == Effect::Unknown { error.effect_unknown() } else { error };
        error.caused_by(self)
    }
}

impl std::fmt::Display for ServerError {
    /// Without the text: it is in the error above, and may quote a row.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClickHouse error {}", self.code)
    }
}

impl std::error::Error for ServerError {}

/// The text between `Code: n. DB::Exception: ` and the version, cut where it lists a grammar.
pub(crate) fn tidy(text: &str) -> String {
    let text = text.trim();
    let text = text.find("DB::Exception: ").map_or(text, |at| &text[at + "DB::Exception: ".len()..]);
    let text = text.rfind(" (version ").map_or(text, |at| &text[..at]);
    let text = text.find(" Expected one of").map_or(text, |at| text[..at].trim_end_matches('.'));
    let mut end = text.len().min(400);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { "…" } else { "" };
    format!("{}{cut}", text[..end].trim())
}

/// What may be shown of an error about data: the symbol, the column and types, the constraint.
/// Everything else can quote a value.
fn without_values(text: &str) -> String {
    let symbol = text
        .rsplit_once(" (version ")
        .map(|(before, _)| before)
        .and_then(|before| before.rsplit_once('('))
        .and_then(|(_, symbol)| symbol.strip_suffix(')'))
        .filter(|symbol| symbol.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'))
        .unwrap_or("a value was refused");
    let part = |from: &str, to: &str| {
        let start = text.find(from)?;
        let end = text[start..].find(to)?;
        Some(&text[start..start + end])
    };
    let place = part("while converting column `", ": While executing").or_else(|| part("Constraint `", " for table"));
    match place {
        Some(place) => format!("{symbol} ({place})"),
        None => symbol.to_owned(),
    }
}

/// Finds `Code: n. DB::Exception: …` in a body: the only sign of an error behind a 200.
pub(crate) fn exception_in(body: &str) -> Option<ServerError> {
    let mut from = 0;
    while let Some(at) = body[from..].find("Code: ").map(|at| from + at) {
        let rest = &body[at + "Code: ".len()..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0
            && rest[digits..].starts_with(". DB::")
            && let Ok(code) = rest[..digits].parse()
        {
            let text = rest.split("\r\n").next().unwrap_or(rest);
            return Some(ServerError { code, text: format!("Code: {text}"), behind_ok: false });
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u32, text: &str) -> ServerError {
        ServerError { code, text: text.to_owned(), behind_ok: false }
    }

    #[test]
    fn every_listed_number_has_its_kind_and_others_stop() {
        use FailureKind::*;
        let kinds = [
            (516, Denied),
            (192, Denied),
            (497, Denied),
            (164, NotWritable),
            (242, NotWritable),
            (243, NotWritable),
            (252, Overloaded),
            (241, Overloaded),
            (159, Unreachable),
            (209, Unreachable),
            (210, Unreachable),
            (279, Unreachable),
            (319, Unreachable),
            (53, Row),
            (27, Row),
            (69, Row),
            (70, Row),
            (321, Row),
            (349, Row),
            (131, Row),
            (691, Row),
            (407, Row),
            (469, Constraint),
            (60, Contract),
            (62, Contract),
            (49, Contract),
            (123_456, Contract),
        ];
        for (code, kind) in kinds {
            assert_eq!(error(code, "").kind(Doing::Insert), kind, "{code}");
        }
        assert_eq!(error(53, "").kind(Doing::Statement), Contract);
    }

    #[test]
    fn too_many_parts_waits_and_too_many_partitions_is_told_apart() {
        let parts = error(252, "Code: 252. DB::Exception: Too many parts (3000 with average size of 1 KiB).");
        assert_eq!(parts.kind(Doing::Insert), FailureKind::Overloaded);
        assert!(!is_too_many_partitions(&parts.into_sink_error("insert", Doing::Insert)));
        let partitions =
            error(252, "Code: 252. DB::Exception: Too many partitions for single INSERT block (more than 100).");
        assert!(is_too_many_partitions(&partitions.into_sink_error("insert", Doing::Insert)));
    }

    #[test]
    fn no_value_of_a_row_is_shown() {
        let cases = [
            (
                691,
                "Code: 691. DB::Exception: Unknown element 'secret' for enum: while converting column `c` from type \
                 Nullable(String) to type Enum8('a' = 1): While executing ArrowIPCBlockInputFormat. \
                 (UNKNOWN_ELEMENT_OF_ENUM) (version 26.9.2.1)",
                "insert: the server refused: code 691: UNKNOWN_ELEMENT_OF_ENUM (while converting column `c` from type \
                 Nullable(String) to type Enum8('a' = 1))",
            ),
            (
                469,
                "Code: 469. DB::Exception: Constraint `cc` for table x.p (7c7d) is violated at row 6. Expression: \
                 (k < 5). Column values: k = 'secret'. (VIOLATED_CONSTRAINT) (version 26.9.2.1)",
                "insert: the server refused: code 469: VIOLATED_CONSTRAINT (Constraint `cc`)",
            ),
            (
                6,
                "Code: 6. DB::Exception: Cannot parse secret",
                "insert: the server refused: code 6: a value was refused",
            ),
        ];
        for (code, text, shown) in cases {
            let error = error(code, text).into_sink_error("insert", Doing::Insert);
            assert_eq!(error.to_string(), shown);
            assert!(!format!("{}", error.source.unwrap()).contains("secret"));
        }
    }

    #[test]
    fn an_exception_is_found_in_a_body_and_nowhere_else() {
        let body =
            "1\n__exception__\r\nabcdefgh\r\nCode: 241. DB::Exception: Memory limit. (MEMORY_LIMIT_EXCEEDED)\r\n77 abc";
        let found = exception_in(body).unwrap();
        assert_eq!(
            (found.code, found.text.as_str()),
            (241, "Code: 241. DB::Exception: Memory limit. (MEMORY_LIMIT_EXCEEDED)")
        );
        assert_eq!(exception_in("Code: red, Code: 7, all fine"), None);
    }
}
