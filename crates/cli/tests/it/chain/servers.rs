//! The order of events into databases that have servers: two instances of a group into each, which are
//! killed at random while others write.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use settle::simulate::Table;
use settle_testkit::kafka;
use settle_testkit::services::is_full;
use settle_testkit::{mariadb, postgres};

use super::connector::Connector;
use super::contents::in_server;
use super::drill::{prove, unlike};
use super::end::End;
use super::leftovers::Leftovers;
use super::pipeline::{Instance, TABLES, committed, configuration};
use super::source::Source;
use super::traffic::Traffic;
use super::turn;
use crate::child::until;
use crate::stage::Stage;

const KILLS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn from_postgres_into_postgres_and_mariadb_killed_ten_times_each_is_the_source() {
    let _turn = turn().await;
    let source = Source::postgres().await;
    let mut leftovers = Leftovers::default();
    for table in TABLES {
        let topic = source.topic(table);
        kafka::create_topic(&topic, 3, &[]).await;
        leftovers.topics.push(topic);
    }
    let (postgres, mariadb) = (postgres::Database::create("into").await, mariadb::Database::create("into").await);
    let mut servers = [
        IntoServer::new(&source, "postgres", postgres.url(), postgres.password()),
        IntoServer::new(&source, "mysql", mariadb.url(), mariadb.password()),
    ];
    let mut connector = Connector::of(&source).await;
    let traffic = Traffic::start(&source).await;
    traffic.until_more(50).await;
    connector.register(&TABLES);
    for server in &mut servers {
        server.instances.iter_mut().for_each(Instance::start);
    }

    let mut rng = StdRng::seed_from_u64(17);
    for kill in 0..KILLS {
        for server in &mut servers {
            server.until_more(&source, rng.random_range(20..120)).await;
            let instance = &mut server.instances[rng.random_range(0..2)];
            instance.kill();
            instance.start();
        }
        match kill {
            2 => connector.snapshot("incremental", &TABLES),
            4 | 8 => source.truncate(Table::OrderItems).await,
            5 => {
                connector.kill();
                connector.restart().await;
            }
            6 => connector.snapshot("blocking", &TABLES),
            _ => {}
        }
    }
    traffic.stop(if is_full() { 6_000 } else { 500 }).await;
    let end = End::mark(&source).await;
    for server in &mut servers {
        let group = server.group.clone();
        end.until_settled(&group, || server.assert_runs()).await;
        server.instances.iter_mut().for_each(Instance::leave);
    }

    let mut different = String::new();
    for table in TABLES {
        let columns = source.columns(table).await;
        let expected = source.table(table, &columns).await;
        let mut places = Vec::new();
        for server in &servers {
            places.push((server.kind, in_server(&server.url, table, &columns).await));
        }
        different += &unlike(&source, table, &expected, &places).await;
    }
    assert!(different.is_empty(), "{different}");
    for server in &servers {
        prove(&server.instances[0], "1");
    }
}

/// Two instances of one group into one database.
struct IntoServer {
    kind: &'static str,
    url: String,
    group: String,
    instances: [Instance; 2],
}

impl IntoServer {
    fn new(source: &Source, kind: &'static str, url: String, password: &str) -> Self {
        let group = format!("{}-{kind}", source.prefix());
        let without = url.replacen(&format!(":{password}@"), "@", 1);
        let instances = ["one", "two"].map(|instance| {
            let stage = Stage::new();
            let password = stage.write("password", password);
            let file = configuration(source, &group, instance)
                + &format!(
                    "[sink]\nkind = \"{kind}\"\nurl = \"{without}\"\npassword = \"file:{}\"\n",
                    password.display()
                );
            Instance::new(format!("instance {instance} into {kind}"), stage, &file)
        });
        Self { kind, url, group, instances }
    }

    fn assert_runs(&mut self) {
        for instance in &mut self.instances {
            instance.assert_runs();
        }
    }

    /// Waits until the group has committed so many records more.
    async fn until_more(&mut self, source: &Source, records: i64) {
        let group = self.group.clone();
        let wanted = committed(source, &group).await + records;
        let now = async || {
            self.assert_runs();
            committed(source, &group).await
        };
        until("records in a database", now, |now| *now >= wanted).await;
    }
}
