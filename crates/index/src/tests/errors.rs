//! Vectors and slabs that are refused.

use super::*;

#[test]
fn dimensions_out_of_range_are_refused() {
    for dim in [0, MAX_DIM + 1] {
        let refused = Some(IndexError::UnsupportedDimension(dim));
        assert_eq!(Slab::new(dim).err(), refused);
        assert_eq!(Query::new(dim, &vec![1.0; dim]).err(), refused);
    }
    assert_eq!(Slab::new(MAX_DIM).unwrap().dim(), MAX_DIM);
}

#[test]
fn vectors_without_a_direction_are_refused() {
    let wrong = IndexError::WrongDimension {
        expected: 3,
        found: 2,
    };
    let cases = [
        (&[1.0, 2.0][..], wrong),
        (&[1.0, f32::NAN, 0.0], IndexError::NotFinite(1)),
        (&[f32::INFINITY, 0.0, 0.0], IndexError::NotFinite(0)),
        (&[0.0, 1.0, f32::NEG_INFINITY], IndexError::NotFinite(2)),
        (&[0.0, -0.0, 0.0], IndexError::Zero),
    ];
    let mut slab = Slab::new(3).unwrap();
    for (vector, error) in cases {
        assert_eq!(slab.insert(1, vector), Err(error));
        assert_eq!(Query::new(3, vector).err(), Some(error));
    }
    assert!(slab.is_empty());
    assert!(!slab.contains(1));
}

#[test]
fn messages_say_what_to_do() {
    let error = Slab::new(3).unwrap().insert(1, &[1.0]).unwrap_err();
    assert_eq!(error.to_string(), "the vector has 1 values: send 3");
}

#[test]
#[should_panic(expected = "another dimension")]
fn a_query_of_another_dimension_panics() {
    let mut slab = Slab::new(2).unwrap();
    slab.insert(1, &[1.0, 0.0]).unwrap();
    search(&slab.snapshot(), &[query(&[1.0, 0.0, 0.0])], 1);
}
