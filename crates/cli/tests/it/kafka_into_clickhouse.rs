//! Kafka into ClickHouse: every keyed shop topic ends as the source table, whatever is replayed.

use settle_testkit::services::is_full;

use crate::capture_into_sqlite::interleaved;
use crate::live::Live;
use crate::shop::{SHOPS, shop};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shop_topic_equals_its_source_after_one_pass_and_two_replays() {
    for shop in SHOPS {
        let live = Live::of(*shop, &shop.lines(), "").await;
        let first = live.stage.run(&["--until-end"]);
        assert_eq!(first.read, shop.lines().len() as u64);
        assert_eq!(live.committed().await, live.ends().await, "{}: committed to the end", shop.topic);
        live.assert_equals_source("one pass").await;
        let (table, mut physical) = (live.table().await, live.physical_rows().await);
        for group in ["replay-1", "replay-2"] {
            let group = format!("{}-{group}", live.topic);
            let replay = live.stage.run(&["--until-end", "--group", &group]);
            assert_eq!(replay.read, first.read, "{}: a replay reads everything", shop.topic);
            assert!(replay.applied > 0, "{}: a replay writes its rows again", shop.topic);
            assert_eq!(live.table().await, table, "{}: FINAL does not move", shop.topic);
            let now = live.physical_rows().await;
            assert_ne!(now, 0);
            assert!(now >= physical || now >= table.rows.len() as u64, "rows only grow or are merged");
            physical = now;
        }
        live.assert_equals_source("two replays").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_of_batches_changes_nothing() {
    let shops = [shop("pg-hazards", "shop.public.customers"), shop("mariadb", "mshop.mshop.customers")];
    for shop in shops {
        for batch in [1, 2, 7] {
            if batch == 1 && !is_full() && shop.folder != "pg-hazards" {
                continue;
            }
            let live = Live::of(shop, &shop.lines(), &format!("max_rows = {batch}")).await;
            live.stage.run(&["--until-end"]);
            live.assert_equals_source(&format!("batches of {batch}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stopped_after_some_records_resumes_as_a_new_process() {
    let shop = shop("pg-hazards", "shop.public.customers");
    let lines = shop.lines();
    let stops = if is_full() { (1..lines.len()).collect() } else { vec![1, 30, lines.len() - 1] };
    for stop in stops {
        let live = Live::of(shop, &lines, "max_rows = 7").await;
        let first = live.stage.run(&["--max-messages", &stop.to_string()]);
        assert_eq!(first.read, stop as u64);
        assert_eq!(live.committed().await.iter().sum::<i64>(), stop as i64, "what was read is committed");
        let rest = live.stage.run(&["--until-end"]);
        assert_eq!(rest.read, (lines.len() - stop) as u64, "nothing is read twice");
        live.assert_equals_source(&format!("stopped after {stop}")).await;
    }
}

/// The topics with a truncate, and with values that were not sent.
const LOOKED_UP: [(&str, &str); 3] = [
    ("pg-hazards", "shop.public.order_items"),
    ("pg-hazards", "shop.public.documents"),
    ("mariadb", "mshop.mshop.order_items"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_interleaving_of_partitions_ends_the_same() {
    for (folder, topic) in LOOKED_UP {
        let shop = shop(folder, topic);
        for seed in 0..if is_full() { 10 } else { 3 } {
            for batch in [1, 7] {
                let lines = interleaved(&shop.lines(), seed);
                let live = Live::of_capture(shop, &lines, &format!("max_rows = {batch}")).await;
                live.stage.run(&["--until-end"]);
                live.assert_equals_source(&format!("interleaving {seed}, batches of {batch}")).await;
                live.stage.run(&["--until-end", "--group", "again"]);
                live.assert_equals_source(&format!("interleaving {seed}, batches of {batch}, again")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stopped_before_a_truncate_or_an_unsent_value_resumes_as_a_new_process() {
    for (folder, topic) in LOOKED_UP {
        let shop = shop(folder, topic);
        let lines = shop.lines();
        let stops = if is_full() { (1..lines.len()).collect() } else { vec![1, lines.len() / 2, lines.len() - 1] };
        for stop in stops {
            let live = Live::of_capture(shop, &lines, "max_rows = 3").await;
            let first = live.stage.run(&["--max-messages", &stop.to_string()]);
            assert_eq!(first.read, stop as u64);
            live.stage.run(&["--until-end"]);
            live.assert_equals_source(&format!("stopped after {stop}")).await;
        }
    }
}
