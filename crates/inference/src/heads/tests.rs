use proptest::prelude::*;

use super::*;

fn candidate(bbox: [f32; 4], score: f32) -> Candidate {
    Candidate {
        bbox: bbox.into(),
        score,
        landmarks: None,
    }
}

#[test]
fn an_overlap_equal_to_the_limit_stays() {
    // 5 of 15 pixels are shared, so the IoU is 1/3.
    let one = candidate([0.0, 0.0, 10.0, 1.0], 0.9);
    let two = candidate([5.0, 0.0, 15.0, 1.0], 0.8);
    let both = vec![one.clone(), two.clone()];
    assert_eq!(nms(both.clone(), 5.0 / 15.0, None), [one.clone(), two]);
    assert_eq!(nms(both, 0.33, None), [one]);
}

#[test]
fn of_equal_scores_the_first_stays() {
    let first = candidate([0.0, 0.0, 10.0, 10.0], 0.5);
    let second = candidate([1.0, 0.0, 11.0, 10.0], 0.5);
    let both = vec![first.clone(), second.clone()];
    assert_eq!(nms(both, 0.3, None), std::slice::from_ref(&first));
    assert_eq!(nms(vec![second.clone(), first], 0.3, None), [second]);
}

fn any_candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (0..60u8, 0..60u8, 0..40u8, 0..40u8, 0..20u8).prop_map(|(x, y, w, h, score)| {
        let [x, y, w, h] = [x, y, w, h].map(f32::from);
        candidate([x, y, x + w, y + h], f32::from(score) / 20.0)
    });
    prop::collection::vec(one, 0..60)
}

proptest! {
    #[test]
    fn kept_ones_do_not_overlap_and_dropped_ones_overlap_a_better_kept_one(
        all in any_candidates(),
        iou in 0.0f32..1.0,
    ) {
        let kept = nms(all.clone(), iou, None);
        for (i, a) in kept.iter().enumerate() {
            for b in &kept[i + 1..] {
                prop_assert!(a.bbox.iou(&b.bbox) <= iou);
                prop_assert!(a.score >= b.score);
            }
        }
        for one in &all {
            let covered = kept.contains(one)
                || kept.iter().any(|k| k.score >= one.score && k.bbox.iou(&one.bbox) > iou);
            prop_assert!(covered, "{one:?} was dropped without an overlap");
        }
    }

    #[test]
    fn a_limit_keeps_the_best_of_what_stays(all in any_candidates(), max in 0..10usize) {
        let kept = nms(all.clone(), 0.3, None);
        let limited = nms(all, 0.3, Some(max));
        prop_assert_eq!(&limited[..], &kept[..max.min(kept.len())]);
    }
}
