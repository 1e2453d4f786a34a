//! How a connector is, as its worker tells.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The connector, and its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// The connector itself, which only hands out tasks.
    pub connector: Part,
    /// The tasks, which read.
    pub tasks: Vec<Part>,
}

/// The connector, or one of its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Part {
    /// Number of a task.
    #[serde(default)]
    pub id: Option<u32>,
    /// RUNNING, PAUSED, FAILED, UNASSIGNED, RESTARTING, STOPPED.
    pub state: String,
    /// Which worker has it.
    pub worker_id: String,
    /// Why it failed: a Java stack trace.
    #[serde(default)]
    pub trace: Option<String>,
}

impl Part {
    /// The trace's first line, and that of its deepest cause where it is another.
    pub fn why(&self) -> Option<String> {
        let trace = self.trace.as_deref()?;
        let first = trace.lines().next().unwrap_or_default().trim();
        let cause = trace.lines().rev().find_map(|line| line.trim().strip_prefix("Caused by: "));
        Some(match cause.filter(|cause| !first.contains(cause)) {
            Some(cause) => format!("{first}: {cause}"),
            None => first.to_owned(),
        })
    }
}

impl Status {
    fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.connector).chain(&self.tasks)
    }

    /// True where it and at least one task run.
    pub fn is_running(&self) -> bool {
        !self.tasks.is_empty() && self.parts().all(|part| part.state == "RUNNING")
    }

    /// Why it, or a task, has failed.
    pub fn failure(&self) -> Option<String> {
        let failed = self.parts().find(|part| part.state == "FAILED")?;
        Some(failed.why().unwrap_or_else(|| "it does not say why".to_owned()))
    }
}

/// A line each.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "connector {}: {} on {}", self.name, self.connector.state, self.connector.worker_id)?;
        if let Some(why) = self.connector.why() {
            writeln!(f, "  {why}")?;
        }
        if self.tasks.is_empty() {
            writeln!(f, "  no task yet")?;
        }
        for task in &self.tasks {
            writeln!(f, "  task {}: {} on {}", task.id.unwrap_or_default(), task.state, task.worker_id)?;
            if let Some(why) = task.why() {
                writeln!(f, "    {why}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_task_is_told_with_the_first_line_and_the_cause() {
        let trace = "org.x.ConnectException: An exception occurred\n\tat a.b(C)\nCaused by: io.x.Oops: in between\n\
                     \tat d.e(F)\nCaused by: java.x.Error: no slot\n\tat g.h(I)\n";
        let json = serde_json::json!({"name": "shop", "type": "source",
            "connector": {"state": "RUNNING", "worker_id": "w:8083"},
            "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:8083", "trace": trace}]});
        let status: Status = serde_json::from_value(json).unwrap();
        assert!(!status.is_running());
        insta::assert_snapshot!(status, @r#"
        connector shop: RUNNING on w:8083
          task 0: FAILED on w:8083
            org.x.ConnectException: An exception occurred: java.x.Error: no slot
        "#);
    }
}
