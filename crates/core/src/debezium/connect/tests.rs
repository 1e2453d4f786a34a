//! Every type that the connectors and the JSON converter write, and schemas that say too little.

use super::*;

/// An envelope whose row has one field, as the converter writes it.
fn envelope(field: &str) -> String {
    format!(
        r#"{{"type":"struct","fields":[
            {{"type":"struct","fields":[{field}],"optional":true,"name":"s.public.t.Value","field":"before"}},
            {{"type":"struct","fields":[{field}],"optional":true,"name":"s.public.t.Value","field":"after"}},
            {{"type":"string","optional":false,"field":"op"}}],"optional":false,"name":"s.public.t.Envelope","version":2}}"#
    )
}

fn type_of(base: &str, name: &str, parameters: &str) -> SourceType {
    let name = if name.is_empty() { String::new() } else { format!(r#","name":"{name}","version":1"#) };
    let parameters = if parameters.is_empty() { String::new() } else { format!(r#","parameters":{parameters}"#) };
    let field = format!(r#"{{"type":"{base}","optional":true{name}{parameters},"field":"c"}}"#);
    let row = row_of_envelope(&envelope(&field)).expect("a schema");
    let [field] = <[Field; 1]>::try_from(row.fields).expect("one field");
    assert_eq!((&*field.name, field.optional), ("c", true));
    field.source_type
}

fn refused(text: &str) -> String {
    row_of_envelope(text).expect_err("a refusal").0
}

#[test]
fn every_semantic_name_has_its_type() {
    use SourceType as T;
    for (base, name, wanted) in [
        ("boolean", "", T::Bool),
        ("int8", "", T::Int { bits: 8 }),
        ("int16", "", T::Int { bits: 16 }),
        ("int32", "", T::Int { bits: 32 }),
        ("int64", "", T::Int { bits: 64 }),
        ("float", "", T::Float32),
        ("double", "", T::Float64),
        ("string", "", T::Text),
        ("bytes", "", T::Bytes),
        ("int32", "io.debezium.time.Date", T::EpochDays),
        ("int32", "io.debezium.time.Time", T::TimeOfDay { digits: 3 }),
        ("int64", "io.debezium.time.MicroTime", T::TimeOfDay { digits: 6 }),
        ("int64", "io.debezium.time.NanoTime", T::TimeOfDay { digits: 9 }),
        ("int64", "io.debezium.time.Timestamp", T::Timestamp { digits: 3 }),
        ("int64", "io.debezium.time.MicroTimestamp", T::Timestamp { digits: 6 }),
        ("int64", "io.debezium.time.NanoTimestamp", T::Timestamp { digits: 9 }),
        ("int32", "org.apache.kafka.connect.data.Date", T::EpochDays),
        ("int32", "org.apache.kafka.connect.data.Time", T::TimeOfDay { digits: 3 }),
        ("int64", "org.apache.kafka.connect.data.Timestamp", T::Timestamp { digits: 3 }),
        ("string", "io.debezium.time.ZonedTimestamp", T::ZonedTimestamp),
        ("string", "io.debezium.time.ZonedTime", T::ZonedTime),
        ("string", "io.debezium.time.IsoDate", T::IsoText),
        ("string", "io.debezium.time.IsoTime", T::IsoText),
        ("string", "io.debezium.time.IsoTimestamp", T::IsoText),
        ("int32", "io.debezium.time.Year", T::Year),
        ("int64", "io.debezium.time.MicroDuration", T::MicroDuration),
        ("int64", "io.debezium.time.NanoDuration", T::NanoDuration),
        ("string", "io.debezium.time.Interval", T::Interval),
        ("string", "io.debezium.data.Uuid", T::Uuid),
        ("string", "io.debezium.data.Json", T::Json),
        ("bytes", "io.debezium.data.Bits", T::Bits { length: None }),
        ("string", "io.debezium.data.Xml", T::NamedText("io.debezium.data.Xml".into())),
        ("string", "io.debezium.data.Ltree", T::NamedText("io.debezium.data.Ltree".into())),
        ("string", "io.debezium.data.TsVector", T::NamedText("io.debezium.data.TsVector".into())),
        ("map", "", T::Map),
        // A name on another base type than its own says nothing about the values.
        ("string", "io.debezium.time.Timestamp", T::NamedText("io.debezium.time.Timestamp".into())),
        ("int64", "io.debezium.time.Date", T::Int { bits: 64 }),
        ("int64", "com.example.Cents", T::Int { bits: 64 }),
    ] {
        assert_eq!(type_of(base, name, ""), wanted, "{base} {name}");
    }
}

#[test]
fn parameters_are_read() {
    let decimal = "org.apache.kafka.connect.data.Decimal";
    assert_eq!(
        type_of("bytes", decimal, r#"{"scale":"10","connect.decimal.precision":"38"}"#),
        SourceType::Decimal { scale: 10, precision: Some(38) }
    );
    assert_eq!(type_of("bytes", decimal, r#"{"scale":"-2"}"#), SourceType::Decimal { scale: -2, precision: None });
    assert_eq!(type_of("bytes", "io.debezium.data.Bits", r#"{"length":"9"}"#), SourceType::Bits { length: Some(9) });
    let allowed = |list: &str| type_of("string", "io.debezium.data.Enum", &format!(r#"{{"allowed":"{list}"}}"#));
    let labels = |labels: &[&str]| SourceType::Enum { allowed: labels.iter().map(|l| (*l).to_owned()).collect() };
    assert_eq!(allowed("sad,ok,happy"), labels(&["sad", "ok", "happy"]));
    assert_eq!(allowed(r"a\\,b,c,"), labels(&["a,b", "c", ""]));
    assert_eq!(allowed(""), labels(&[]));
    let set = type_of("string", "io.debezium.data.EnumSet", r#"{"allowed":"x,y"}"#);
    assert_eq!(set, labels(&["x", "y"]));
}

#[test]
fn arrays_vectors_and_structs_are_read() {
    let field = |json: &str| row_of_envelope(&envelope(json)).map(|row| row.fields[0].source_type.clone());
    let array = |element| SourceType::Array(Box::new(element));
    let wide = r#"{"type":"array","items":{"type":"array","items":{"type":"int32","name":"io.debezium.time.Date"}},"field":"c"}"#;
    assert_eq!(field(wide), Ok(array(array(SourceType::EpochDays))));
    let vector = r#"{"type":"array","items":{"type":"float"},"name":"io.debezium.data.FloatVector","field":"c"}"#;
    assert_eq!(field(vector), Ok(array(SourceType::Float32)));
    let variable = r#"{"type":"struct","fields":[{"type":"int32","field":"scale"},{"type":"bytes","field":"value"}],"name":"io.debezium.data.VariableScaleDecimal","field":"c"}"#;
    assert_eq!(field(variable), Ok(SourceType::VariableDecimal));
    for name in
        ["io.debezium.data.geometry.Point", "io.debezium.data.geometry.Geometry", "io.debezium.data.SparseVector"]
    {
        let json =
            format!(r#"{{"type":"struct","fields":[{{"type":"double","field":"x"}}],"name":"{name}","field":"c"}}"#);
        assert_eq!(field(&json), Ok(SourceType::Other(name.to_owned())));
    }
}

#[test]
fn what_a_schema_leaves_open_is_named() {
    for (text, wanted) in [
        (r#"{"type":"string"}"#, "the envelope is of type `string`, where a struct is expected"),
        (r#"{"type":"struct"}"#, "the envelope is a struct without `fields`"),
        (r#"{"type":"struct","fields":[{"type":"string","field":"op"}]}"#, "the envelope has no field `after`"),
        (
            r#"{"type":"struct","fields":[{"type":"string","name":"io.debezium.data.Json","field":"after"}]}"#,
            "the field `after` is of type `string`, where a struct is expected",
        ),
        (
            r#"{"type":"struct","fields":[{"type":"struct","fields":[{"type":"int32"}],"field":"after"}]}"#,
            "the field `after` has a field without a name",
        ),
    ] {
        assert_eq!(refused(text), wanted);
    }
    for (field, wanted) in [
        (r#"{"type":"uint8","field":"c"}"#, "field \"c\" is of the unknown type `uint8`"),
        (r#"{"type":"array","field":"c"}"#, "field \"c\" is an array without `items`"),
        (
            r#"{"type":"array","items":{"type":"x"},"field":"c"}"#,
            "field \"c\" holds an element that is of the unknown type `x`",
        ),
        (
            r#"{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","field":"c"}"#,
            "field \"c\" is a Decimal without the parameter `scale`",
        ),
        (
            r#"{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"x"},"field":"c"}"#,
            "field \"c\" is a Decimal whose parameter `scale` is no integer",
        ),
    ] {
        assert_eq!(refused(&envelope(field)), wanted);
    }
    for text in ["", "{", "[]", "null", r#"{"fields":[]}"#, &"[".repeat(100_000)] {
        assert!(row_of_envelope(text).is_err());
    }
}

#[test]
fn one_row_type_is_one_pointer_whatever_the_text() {
    let mut cache = SchemaCache::default();
    let text = envelope(r#"{"type":"int32","optional":false,"field":"id"}"#);
    let first = cache.row_of_envelope(&text).unwrap();
    assert!(Arc::ptr_eq(&first, &cache.row_of_envelope(&text).unwrap()));
    let respelled = envelope(r#"{"type":"int32","doc":"new","default":0,"optional":false,"field":"id"}"#);
    assert!(Arc::ptr_eq(&first, &cache.row_of_envelope(&respelled).unwrap()));
    let other = envelope(r#"{"type":"int64","optional":false,"field":"id"}"#);
    let second = cache.row_of_envelope(&other).unwrap();
    assert_ne!(first, second);
    assert!(cache.row_of_envelope("{}").is_err());
    assert!(Arc::ptr_eq(&second, &cache.row_of_envelope(&other).unwrap()));
}

#[test]
fn recorded_schemas_of_keys_and_rows_are_read() {
    let mut cache = SchemaCache::default();
    let key = r#"{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false,"name":"shopa.public.all_types.Key"}"#;
    let row = cache.row_of_key(key).unwrap();
    assert_eq!(row.fields, [Field { name: "id".into(), source_type: SourceType::Int { bits: 32 }, optional: false }]);
    assert!(cache.row_of_key(r#"{"type":"int32"}"#).is_err());

    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/fixtures/pg-json-schemas/shopa.public.all_types.jsonl");
    let mut rows = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let Some(payload) = line["payload"].as_str() else { continue };
        let payload: serde_json::Value = serde_json::from_str(payload).unwrap();
        rows.push(cache.row_of_envelope(&payload["schema"].to_string()).unwrap());
    }
    assert!(rows.len() > 1 && rows.iter().all(|row| Arc::ptr_eq(row, &rows[0])));
    let fields = &rows[0].fields;
    assert_eq!(fields.len(), 30);
    let named = |name: &str| fields.iter().find(|f| f.name == name).unwrap();
    assert_eq!(named("c_num38").source_type, SourceType::Decimal { scale: 10, precision: Some(38) });
    assert_eq!(named("c_ints").source_type, SourceType::Array(Box::new(SourceType::Int { bits: 32 })));
    assert_eq!((fields[0].name.as_str(), fields[29].name.as_str()), ("id", "c_money"));
    let required: Vec<_> = fields.iter().filter(|f| !f.optional).map(|f| f.name.as_str()).collect();
    assert_eq!(required, ["id", "c_nn"]);
}
