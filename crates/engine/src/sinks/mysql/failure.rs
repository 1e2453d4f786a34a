//! MySQL's and MariaDB's errors as the one error of sinks.
//!
//! Some messages of the server hold values of rows ("Duplicate entry 'x' for key 'y'"). Of those only
//! the names of the column or the key are told, which stand behind the value.

use mysql_async::{DriverError, Error, IoError};
use settle_core::sink::{FailureKind, SinkError};

pub(super) use crate::sinks::sql::session::{Outcome, contract};

/// The server's code, without its message.
#[derive(Debug, thiserror::Error)]
#[error("server error {code} ({state})")]
struct ServerCode {
    code: u16,
    state: String,
}

/// True where a table has, or was to get, a column of the name already, as the server compares names.
pub(super) fn is_second_of_a_name(error: &SinkError) -> bool {
    let code = error.source.as_ref().and_then(|cause| cause.downcast_ref::<ServerCode>());
    code.is_some_and(|server| server.code == 1060)
}

/// Sorts an error by what must be done about it.
pub(super) fn of(error: Error, operation: &str) -> SinkError {
    let (code, state, message) = match error {
        Error::Server(server) => (server.code, server.state, server.message),
        Error::Io(IoError::Io(error)) => {
            let context = "the connection to the server broke, or it cannot be reached";
            return SinkError::new(FailureKind::Unreachable, operation, context).caused_by(error);
        }
        Error::Io(IoError::Tls(error)) => {
            let context = "no TLS session with the server; see ssl-mode and ssl-ca in [sink] url";
            return SinkError::new(FailureKind::Unreachable, operation, context).caused_by(error);
        }
        Error::Driver(driver) => return of_driver(driver, operation),
        Error::Url(_) | Error::Other(_) => {
            return SinkError::new(FailureKind::Bug, operation, "the client of MySQL failed in an unknown way");
        }
    };
    let (kind, context) = sorted(code, &message);
    SinkError::new(kind, operation, context).caused_by(ServerCode { code, state })
}

/// None of the library's errors that hold values is shown.
fn of_driver(error: DriverError, operation: &str) -> SinkError {
    let (kind, context) = match error {
        DriverError::ConnectionClosed
        | DriverError::PacketOutOfOrder
        | DriverError::UnexpectedPacket { .. }
        | DriverError::BadCompressedPacketHeader
        | DriverError::PoolDisconnected => (FailureKind::Unreachable, "the server closed the connection"),
        DriverError::NoClientSslFlagFromServer => {
            (FailureKind::Contract, "the server has no TLS, and ssl-mode in [sink] url asks for it")
        }
        DriverError::UnknownAuthPlugin { .. }
        | DriverError::MysqlOldPasswordDisabled
        | DriverError::CleartextPluginDisabled => (
            FailureKind::Denied,
            "the user logs in by a plugin that is not supported; use mysql_native_password, caching_sha2_password or \
             ed25519",
        ),
        DriverError::NoKeyFound => (FailureKind::Contract, "the file that ssl-key names holds no private key"),
        DriverError::PacketTooLarge => (FailureKind::Row, TOO_LARGE),
        _ => (FailureKind::Bug, "the client of MySQL failed in an unknown way"),
    };
    SinkError::new(kind, operation, context)
}

pub(super) const TOO_LARGE: &str =
    "the row is larger than the server takes in one piece; set max_allowed_packet of the server above it";

const LOST_OWN: &str = "what the rows and the place in the log stand on went with it: restore it from a backup; or remove \
                        all of Settle's tables, and read everything again under a new group";

/// True where `Table 'database.table' doesn't exist` is of a table of Settle's own.
fn is_own(message: &str) -> bool {
    ["settle_meta", "settle_positions"].iter().any(|table| message.contains(&format!(".{table}'")))
}

fn sorted(code: u16, message: &str) -> (FailureKind, String) {
    use FailureKind as K;
    let told = |hint: &str| format!("{message}; {hint}");
    match code {
        // Shutting down, killed, network.
        1053 | 1077..=1080 | 1152 | 1158..=1161 | 1184 | 1927 | 2006 | 2013 | 3032 | 3168 | 3169 | 4031 => {
            (K::Unreachable, "the server is shutting down, or closed the connection".into())
        }
        // A node of a cluster that is not part of it at the moment.
        1047 => (K::Unreachable, "this node of the cluster takes no statements at the moment".into()),
        1045 | 1698 => (K::Denied, told("see user and password in [sink]")),
        1044 | 1130 | 1131 | 1133 | 1142 | 1143 | 1227 | 1370 | 1862 | 3118 | 3955 | 4151 => {
            (K::Denied, told("give the user of [sink] url the privileges that `settle check` names"))
        }
        1129 => (K::Denied, told("run FLUSH HOSTS at the server, and look for what broke the connections")),
        1836 | 1792 | 3541 => (K::NotWritable, "the server is read-only: a replica, or one that is being moved".into()),
        1290 if message.contains("read-only") || message.contains("read_only") || message.contains("super-read") => {
            (K::NotWritable, "the server is read-only: a replica, or one that is being moved".into())
        }
        1021 | 1114 | 1030 | 1026 | 1039 | 3675 => {
            (K::NotWritable, told("the disk or the tablespace is full, or failed"))
        }
        1040 | 1203 | 1226 | 1461 | 1037 | 1038 | 1041 | 1135 => {
            (K::Overloaded, told("the server has no room for more at the moment"))
        }
        1205 => (
            K::Overloaded,
            "another session holds a lock on these rows or this table; it is tried again until the lock is free".into(),
        ),
        1969 | 3024 => (K::Overloaded, "the server's time limit for a statement was reached".into()),
        1213 | 1317 | 1614 | 3101 | 3572 => {
            (K::Conflict, "the transaction was rolled back in favour of another, or was interrupted".into())
        }
        // Nothing makes them again in the middle of a run: without them no row is safe.
        1146 | 1932 if is_own(message) => (K::Contract, told(LOST_OWN)),
        // The table is not what was known of it: it is looked at anew, and the batch applied again.
        1050 | 1054 | 1060 | 1146 | 1412 | 1615 | 1932 => (K::Conflict, "the table was changed meanwhile".into()),
        1153 => (K::Row, TOO_LARGE.into()),
        1406 => (K::Row, named("a value is too long for", message, " for column ")),
        1264 | 1690 => (K::Row, named("a value is out of the range of", message, " for column ")),
        1265 | 1366 | 1292 | 1367 | 1411 | 1426 | 1441 | 4078 => {
            (K::Row, named("a value does not fit", message, " for column "))
        }
        // A key is compared before it is stored.
        1267 | 1270 | 1271 => {
            (K::Row, "a text of the key has a character that the character set of its column lacks".into())
        }
        3140 | 3141 | 3143 | 3156 => (K::Row, "a value is no JSON document, and its column takes nothing else".into()),
        3819 | 4025 => (K::Constraint, "a CHECK constraint of the table refused the row".into()),
        1048 | 1364 | 1263 => (K::Constraint, no_value(message)),
        1062 | 1586 => (K::Constraint, named("a row with the same value is there:", message, " for key ")),
        1022 | 1169 => (K::Constraint, "a row with the same value is there".into()),
        1216 | 1217 | 1451 | 1452 => (K::Constraint, "a foreign key of the table refused the row".into()),
        1643..=1645 => (K::Constraint, "a trigger of the table refused the row".into()),
        1118 | 1139 => (K::Row, "the row has no room on a page of the table".into()),
        _ => (K::Contract, message.to_owned()),
    }
}

/// What went wrong, with the name that stands behind the last `mark` of the message.
fn named(what: &str, message: &str, mark: &str) -> String {
    match message.rsplit_once(mark) {
        Some((_, name)) => format!("{what} {}", name.split(" at row ").next().unwrap_or(name).trim()),
        None => format!("{what} a column"),
    }
}

/// `Column 'v' cannot be null`, `Field 'v' doesn't have a default value`: no value stands in them.
fn no_value(message: &str) -> String {
    format!("no value for a column that must have one ({message})")
}

/// The row of a statement of several that is at fault, from 1, where the server says it.
pub(super) fn row_at_fault(error: &Error) -> Option<usize> {
    let Error::Server(server) = error else { return None };
    let (_, number) = server.message.rsplit_once(" at row ")?;
    number.trim().parse().ok().filter(|number| *number > 0)
}

/// True where the connection must not be used again.
pub(super) fn is_connection_lost(error: &SinkError) -> bool {
    matches!(error.kind, FailureKind::NotWritable | FailureKind::Denied | FailureKind::Unreachable | FailureKind::Bug)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_async::ServerError;

    fn server(code: u16, message: &str) -> Error {
        Error::Server(ServerError { code, message: message.to_owned(), state: "HY000".to_owned() })
    }

    #[test]
    fn every_code_has_the_kind_that_says_what_to_do() {
        use FailureKind as K;
        for (code, message, wanted) in [
            (1053, "Server shutdown in progress", K::Unreachable),
            (1047, "WSREP has not yet prepared node for application use", K::Unreachable),
            (1045, "Access denied", K::Denied),
            (1142, "INSERT command denied", K::Denied),
            (1271, "Illegal mix of collations for operation 'in'", K::Row),
            (1290, "The MariaDB server is running with the --read-only option", K::NotWritable),
            (1290, "The server is running with the --skip-grant-tables option", K::Contract),
            (1836, "Running in read-only mode", K::NotWritable),
            (1021, "Disk full", K::NotWritable),
            (1040, "Too many connections", K::Overloaded),
            (1205, "Lock wait timeout exceeded", K::Overloaded),
            (1213, "Deadlock found", K::Conflict),
            (1054, "Unknown column 'x'", K::Conflict),
            (1146, "Table 'd.settled' doesn't exist", K::Conflict),
            (1146, "Table 'd.settle_meta' doesn't exist", K::Contract),
            (1146, "Table 'd.settle_positions' doesn't exist", K::Contract),
            (1932, "Table 'd.settle_meta' doesn't exist in engine", K::Contract),
            (1060, "Duplicate column name 'x'", K::Conflict),
            (1406, "Data too long for column 'v' at row 3", K::Row),
            (1264, "Out of range value for column 'v' at row 3", K::Row),
            (1366, "Incorrect integer value: 'x' for column `d`.`t`.`v` at row 1", K::Row),
            (4025, "CONSTRAINT `t.v` failed for `d`.`t`", K::Constraint),
            (1062, "Duplicate entry 'x' for key 'v'", K::Constraint),
            (1048, "Column 'v' cannot be null", K::Constraint),
            (1644, "secret", K::Constraint),
            (1064, "You have an error in your SQL syntax", K::Contract),
            (1049, "Unknown database 'x'", K::Contract),
        ] {
            assert_eq!(of(server(code, message), "write").kind, wanted, "{code}");
        }
    }

    #[test]
    fn no_value_of_a_row_is_repeated() {
        for (code, message, said) in [
            (
                1062,
                "Duplicate entry 'secret for key 'x' for key 'email'",
                "a row with the same value is there: 'email'",
            ),
            (
                1366,
                "Incorrect integer value: 'secret for column a at row 9' for column `d`.`t`.`v` at row 1",
                "a value does not fit `d`.`t`.`v`",
            ),
            (1406, "Data too long for column 'v' at row 3", "a value is too long for 'v'"),
            (1644, "the secret is out", "a trigger of the table refused the row"),
            (1292, "Truncated incorrect DOUBLE value: 'secret'", "a value does not fit a column"),
        ] {
            let error = of(server(code, message), "write to \"t\"");
            assert_eq!(error.to_string(), format!("write to \"t\": {said}"));
            assert!(!format!("{error:?}").contains("secret"));
        }
    }

    #[test]
    fn the_row_at_fault_is_the_one_that_the_server_names() {
        assert_eq!(row_at_fault(&server(1406, "Data too long for column 'v' at row 3")), Some(3));
        assert_eq!(row_at_fault(&server(1062, "Duplicate entry 'x at row 7' for key 'v'")), None);
        assert_eq!(row_at_fault(&server(1048, "Column 'v' cannot be null")), None);
    }
}
