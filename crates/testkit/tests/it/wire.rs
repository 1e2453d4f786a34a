//! Faults before servers that speak no HTTP.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use settle_testkit::proxy::WireProxy;
use settle_testkit::{mariadb, postgres};
use tokio_postgres::{Client, Config, NoTls};

async fn postgres_through(proxy: &WireProxy, database: &postgres::Database) -> Result<Client, tokio_postgres::Error> {
    let (user, password) = (database.user(), database.password());
    let mut config = Config::new();
    config.host("127.0.0.1").port(proxy.address().port()).user(user).password(password).dbname(database.name());
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

#[tokio::test]
async fn a_lost_commit_of_postgresql_is_done_once_and_heard_by_nobody() {
    let database = postgres::Database::create("wire").await;
    database.execute("CREATE TABLE t (n int)").await;
    let proxy = WireProxy::before(&format!("{}:{}", database.host(), database.port())).await;
    let client = postgres_through(&proxy, &database).await.unwrap();
    proxy.lose_reply("COMMIT", "COMMIT\0");
    client.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
    assert_eq!(proxy.lost(), 0);
    client.batch_execute("COMMIT").await.unwrap_err();
    assert_eq!((proxy.lost(), database.rows("SELECT n FROM t").await), (1, vec![vec![Some("1".to_owned())]]));
    let client = postgres_through(&proxy, &database).await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO t VALUES (2); COMMIT").await.unwrap();
    assert_eq!((proxy.lost(), database.rows("SELECT count(*) FROM t").await), (1, vec![vec![Some("2".to_owned())]]));
}

#[tokio::test]
async fn a_lost_commit_of_mariadb_is_done_once_and_heard_by_nobody() {
    let database = mariadb::Database::create("wire").await;
    database.execute("CREATE TABLE t (n int)").await;
    let proxy = WireProxy::before(&format!("{}:{}", database.host(), database.port())).await;
    let through = || {
        let opts = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(proxy.address().port());
        let opts = opts.user(Some(database.user())).pass(Some(database.password())).db_name(Some(database.name()));
        // Not past the proxy.
        Conn::new(opts.prefer_socket(false))
    };
    let mut connection = through().await.unwrap();
    proxy.lose_reply("COMMIT", "");
    connection.query_drop("BEGIN").await.unwrap();
    connection.query_drop("INSERT INTO t VALUES (1)").await.unwrap();
    connection.query_drop("COMMIT").await.unwrap_err();
    assert_eq!((proxy.lost(), database.rows("SELECT n FROM t").await), (1, vec![vec![Some("1".to_owned())]]));
    let mut connection = through().await.unwrap();
    connection.query_drop("INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(proxy.lost(), 1);
}

#[tokio::test]
async fn open_connections_end_and_new_ones_are_refused_until_all_passes() {
    let database = postgres::Database::create("wire").await;
    let proxy = WireProxy::before(&format!("{}:{}", database.host(), database.port())).await;
    let client = postgres_through(&proxy, &database).await.unwrap();
    proxy.refuse().await;
    client.batch_execute("SELECT 1").await.unwrap_err();
    assert!(postgres_through(&proxy, &database).await.is_err());
    proxy.pass();
    postgres_through(&proxy, &database).await.unwrap().batch_execute("SELECT 1").await.unwrap();
}
