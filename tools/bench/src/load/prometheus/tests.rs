use super::*;

const BEFORE: &str = r#"
# HELP facescan_batch_rows Rows of each batch.
# TYPE facescan_batch_rows histogram
facescan_batch_rows_bucket{operation="face_detection",le="1"} 3
facescan_batch_rows_bucket{operation="face_detection",le="2"} 4
facescan_batch_rows_bucket{operation="face_detection",le="+Inf"} 4
facescan_batch_rows_sum{operation="face_detection"} 5
facescan_batch_rows_count{operation="face_detection"} 4
facescan_requests_total 12
"#;

const AFTER: &str = r#"
facescan_batch_rows_bucket{le="+Inf",operation="face_detection"} 16 1700000000000
facescan_batch_rows_bucket{le="1",operation="face_detection"} 5
facescan_batch_rows_bucket{le="2",operation="face_detection"} 6
facescan_batch_rows_sum{operation="face_detection"} 4.7e1
facescan_batch_rows_count{operation="face_detection"} 16
facescan_batch_rows_bucket{operation="face_embedding",le="+Inf"} 0
facescan_batch_rows_sum{operation="face_embedding"} 0
facescan_batch_rows_count{operation="face_embedding"} 0
"#;

#[test]
fn the_batches_between_two_readings_are_counted_by_size() {
    let before = Counters::read(BEFORE).unwrap();
    let after = Counters::read(AFTER).unwrap();
    let expected = Batches {
        batches: 12.0,
        rows: 42.0,
        mean_rows: 3.5,
        sizes: vec![
            Size {
                up_to: Some(1.0),
                batches: 2.0,
            },
            Size {
                up_to: None,
                batches: 10.0,
            },
        ],
    };
    assert_eq!(
        after.since(&before),
        BTreeMap::from([("face_detection".to_owned(), expected)])
    );
    assert!(after.since(&after).is_empty());
}

#[test]
fn other_metrics_and_other_texts_have_no_batches() {
    for text in [
        "",
        "not found",
        "<html><body>{</body></html>",
        "up 1\n# facescan_batch_rows_sum 3\n",
        "facescan_batch_rows_sum{operation=\"a",
        "facescan_batch_rows_sum{operation=\"a\"} many",
    ] {
        assert_eq!(Counters::read(text), None, "{text}");
    }
}

#[test]
fn labels_may_contain_escaped_characters() {
    let sample = parse_line(r#"m{ a="1,}\"\\\n", b = "x" , } +Inf"#).unwrap();
    assert_eq!(sample.labels["a"], "1,}\"\\\n");
    assert_eq!(sample.labels["b"], "x");
    assert_eq!(sample.value, f64::INFINITY);
    assert_eq!(parse_line("m 1").unwrap().value, 1.0);
}
