//! Faces and settings that are refused.

use super::*;

fn error(lists: &[&[(u32, f32)]]) -> ClusteringError {
    let mut faces = Faces::default();
    for list in lists {
        let entry = |&(face, similarity): &(u32, f32)| Neighbor { face, similarity };
        faces.push(Face::default(), &list.iter().map(entry).collect::<Vec<_>>());
    }
    group(&faces, &settings(), Scope::Full).unwrap_err()
}

#[test]
fn lists_that_cannot_be_are_refused() {
    let unknown = ClusteringError::UnknownFace {
        face: 1,
        neighbor: 2,
    };
    assert_eq!(error(&[&[], &[(2, 0.5)]]), unknown);
    assert_eq!(error(&[&[], &[(1, 0.5)]]), ClusteringError::Itself(1));
    let twice = ClusteringError::Twice {
        face: 0,
        neighbor: 1,
    };
    assert_eq!(error(&[&[(1, 0.5), (1, 0.5)], &[]]), twice);
    let not_finite = ClusteringError::NotFinite(0);
    assert_eq!(error(&[&[(1, f32::NAN)], &[]]), not_finite);
    assert_eq!(error(&[&[(1, f32::INFINITY)], &[]]), not_finite);
    let not_sorted = ClusteringError::NotSorted(0);
    assert_eq!(error(&[&[(1, 0.4), (2, 0.5)], &[], &[]]), not_sorted);
}

#[test]
fn thresholds_that_contradict_each_other_are_refused() {
    let check = |weak, strong| {
        let settings = Settings::new(strong, weak);
        group(&Faces::default(), &settings, Scope::Full)
    };
    assert_eq!(check(0.5, 0.5), Ok(vec![]));
    for (weak, strong) in [
        (0.6, 0.5),
        (f32::NAN, 0.5),
        (0.1, f32::NAN),
        (0.1, f32::INFINITY),
    ] {
        let error = check(weak, strong).unwrap_err();
        assert!(
            matches!(error, ClusteringError::Thresholds { .. }),
            "{error}"
        );
    }
    let settings = Settings {
        bridge_threshold: f32::NAN,
        ..settings()
    };
    let error = group(&Faces::default(), &settings, Scope::Full).unwrap_err();
    assert!(matches!(error, ClusteringError::Thresholds { bridge, .. } if bridge.is_nan()));
}
