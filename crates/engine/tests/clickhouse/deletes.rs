//! Delete markers: only the key, never the columns that `before` made up.

use crate::records::{Log, batch, event};
use crate::stage::{apply, declaring, staged};

const COLUMNS: &[(&str, &str)] =
    &[("id", "Int64"), ("v", "String"), ("n", "Int32 DEFAULT 7"), ("w", "Nullable(String)")];

#[tokio::test]
async fn a_delete_marker_holds_the_columns_defaults() {
    staged(async |stage| {
        let events = [event("d", 100, r#"{"id":1}"#, "")];
        stage.apply(declaring(COLUMNS), &batch(&events)).await.unwrap();
        assert_eq!(
            stage.rows("SELECT id, v, n, w, _op, _source_ts_ms, _is_deleted FROM t").await,
            ["1\t\t7\t\\N\td\t1700000000123\t1"]
        );
        assert_eq!(stage.rows("SELECT * FROM t_current").await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_late_older_row_does_not_resurrect() {
    staged(async |stage| {
        let mut log = Log::default();
        let row = |lsn, v| event("u", lsn, r#"{"id":1}"#, &format!(r#"{{"id":1,"v":"{v}","n":1,"w":null}}"#));
        let old = log.batch(&[row(100, "old")]);
        let delete = log.batch(&[event("d", 200, r#"{"id":1}"#, "")]);
        let mut sink = stage.sink(declaring(COLUMNS)).await;
        apply(&mut sink, &delete).await.unwrap();
        apply(&mut sink, &old).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current").await, Vec::<String>::new());
        let born_again = log.batch(&[row(300, "new")]);
        apply(&mut sink, &born_again).await.unwrap();
        assert_eq!(stage.rows("SELECT id, v FROM t_current").await, ["1\tnew"]);
        for sql in ["OPTIMIZE TABLE t FINAL", "SELECT 1"] {
            stage.run(sql).await;
            assert_eq!(stage.rows("SELECT id, v FROM t FINAL WHERE _is_deleted = 0").await, ["1\tnew"]);
        }
    })
    .await;
}
