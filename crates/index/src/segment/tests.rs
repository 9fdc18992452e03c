use super::*;

fn row(value: i8) -> Row {
    Row {
        codes: vec![value, -value],
        scale: 1.0,
    }
}

/// Returns a segment with the ids 0, 10, 20, … and two codes a row.
fn filled(rows: u64) -> Segment {
    let mut segment = Segment::with_capacity(2, 0);
    for at in 0..rows {
        segment.insert(at as usize, at * 10, &row(at as i8 + 1), 1000);
    }
    segment
}

#[test]
fn gathering_drops_dead_slots_and_spare_room() {
    let mut segment = filled(20);
    segment.remove(0);
    segment.remove(7);
    let gathered = Segment::gather(2, &[(&segment, 0..10), (&segment, 15..20)]);
    let ids = [10, 20, 30, 40, 50, 60, 80, 90, 150, 160, 170, 180, 190];
    assert_eq!(gathered.rows, ids);
    assert_eq!(gathered.len(), 13);
    assert_eq!(gathered.codes[..2], [2, -2]);
    assert_eq!(gathered.codes[12..14], [9, -9]);
    assert_eq!(gathered.codes.capacity(), 26);
    assert_eq!(gathered.rows.capacity(), 13);
}

#[test]
fn growth_stops_at_the_limit() {
    let mut segment = Segment::with_capacity(2, 0);
    for at in 0..100 {
        segment.insert(at, at as u64, &row(1), 100);
        assert!(segment.rows.capacity() <= at + 1 + (at / 8).max(MIN_GROWTH));
    }
    assert_eq!(segment.rows.capacity(), 100);
    assert_eq!(segment.codes.capacity(), 200);
}
