//! What a drill makes on servers that others use too; taken away with the value, also when the drill failed.

use settle_testkit::clickhouse::Client;
use settle_testkit::kafka;

use super::history::Log;

/// Topics and databases; what was in the topics of a drill that failed is kept as files. Make it before
/// their users: what is made last goes first.
#[derive(Default)]
pub struct Leftovers {
    pub topics: Vec<String>,
    pub databases: Vec<String>,
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let (topics, databases) = (std::mem::take(&mut self.topics), std::mem::take(&mut self.databases));
        let has_failed = std::thread::panicking();
        let take_away = async move {
            if has_failed {
                for topic in &topics {
                    eprintln!("the log is kept: {}", Log::read(topic).await.keep().display());
                }
            }
            for database in databases {
                Client::new().query(&format!("DROP DATABASE IF EXISTS `{database}` SYNC")).await;
            }
            for topic in topics {
                kafka::delete_topic(&topic).await;
            }
        };
        // A runtime cannot wait inside another; a thread of its own can.
        let gone = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(take_away);
        });
        let gone = gone.join();
        assert!(gone.is_ok() || std::thread::panicking(), "topics and databases could not be taken away");
    }
}
