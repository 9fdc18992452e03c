use super::*;
use crate::cli::bench::devices::figures::{Failed, Memory, Times};

fn cell(active: &str, time_ms: f64) -> Cell {
    Cell {
        requested: "openvino:0".to_owned(),
        active: active.to_owned(),
        reason: None,
        cpu_provider: "cpu".to_owned(),
        distinct: 6,
        batch_size: 8,
        times: Times::from_times(vec![time_ms; 4]),
        mean_throughput: 8.0 / time_ms * 1e3,
        success_rate: 1.0,
        errors: BTreeMap::new(),
        first_run_ms: time_ms,
        warm_up_ms: time_ms,
        device_rows: 0,
        fallback_rows: BTreeMap::new(),
        memory: Memory::default(),
    }
}

fn pair(off: f64, on: Cell) -> BTreeMap<Toggle, Cell> {
    BTreeMap::from([(Toggle::Off, cell("cpu", off)), (Toggle::On, on)])
}

fn analyzed(sizes: Vec<(Size, BTreeMap<Toggle, Cell>)>) -> (BTreeMap<Size, Gains>, Recommendation) {
    let operation = DeviceTask::FaceDetection;
    let mut analysis = analyze(&BTreeMap::from([(operation, sizes.into_iter().collect())]));
    let gains = analysis.performance_gains.remove(&operation).unwrap();
    let recommendation = analysis.recommendations.remove(&operation).unwrap();
    assert_eq!(recommendation.setting, "FACE_DETECTION_GPU");
    (gains, recommendation)
}

#[test]
fn a_toggle_that_saves_more_than_ten_percent_at_the_medium_size_pays_off() {
    let (gains, recommendation) = analyzed(vec![
        (Size::Small, pair(100.0, cell("cuda:0", 200.0))),
        (Size::Medium, pair(100.0, cell("cuda:0", 50.0))),
    ]);
    let of = |time, throughput| Gains {
        time_improvement_percent: Some(time),
        throughput_improvement_percent: Some(throughput),
    };
    assert_eq!(gains[&Size::Small], of(-100.0, -50.0));
    assert_eq!(gains[&Size::Medium], of(50.0, 100.0));
    assert_eq!(recommendation.toggle, Some(Advice::On));
    assert_eq!(recommendation.judged_at, Size::Medium);
    assert_eq!(
        recommendation.reason,
        "on cuda:0 a batch takes 50.0 % less time (medium)"
    );
}

#[test]
fn a_toggle_that_saves_ten_percent_or_less_does_not_pay_off() {
    for (time_ms, words) in [(90.0, "not more than 10 %"), (120.0, "20.0 % more time")] {
        let (_, recommendation) =
            analyzed(vec![(Size::Large, pair(100.0, cell("cuda:0", time_ms)))]);
        assert_eq!(recommendation.toggle, Some(Advice::Off));
        assert_eq!(recommendation.judged_at, Size::Large);
        assert!(recommendation.reason.contains(words), "{recommendation:?}");
    }
}

#[test]
fn an_operation_that_still_runs_on_the_cpu_has_no_gains() {
    let on = Cell {
        reason: Some("no such library".to_owned()),
        ..cell("cpu", 10.0)
    };
    let (gains, recommendation) = analyzed(vec![(Size::Medium, pair(100.0, on))]);
    assert_eq!(gains[&Size::Medium], Gains::default());
    assert_eq!(recommendation.toggle, Some(Advice::Off));
    assert!(recommendation.reason.ends_with("no such library"));
}

#[test]
fn a_failure_at_any_size_turns_the_toggle_off() {
    let failed = Failed {
        count: 2,
        first: "the engine has stopped".to_owned(),
    };
    let failing = Cell {
        errors: BTreeMap::from([("internal", failed)]),
        ..cell("cuda:0", 10.0)
    };
    let falling_back = Cell {
        fallback_rows: BTreeMap::from([("out_of_memory", 3)]),
        ..cell("cuda:0", 10.0)
    };
    for (on, words) in [
        (failing, "2 failed with internal"),
        (falling_back, "3 rows fell back to the CPU: out_of_memory"),
    ] {
        let (_, recommendation) = analyzed(vec![
            (Size::Medium, pair(100.0, cell("cuda:0", 10.0))),
            (Size::Large, pair(100.0, on)),
        ]);
        assert_eq!(recommendation.toggle, Some(Advice::Off));
        assert!(recommendation.reason.contains(words), "{recommendation:?}");
        assert!(recommendation.reason.ends_with("(large, gpu_true)"));
    }
}

#[test]
fn one_side_alone_gives_no_advice() {
    let alone = BTreeMap::from([(Toggle::On, cell("cuda:0", 10.0))]);
    let (gains, recommendation) = analyzed(vec![(Size::Small, alone)]);
    assert_eq!(gains[&Size::Small], Gains::default());
    assert_eq!(recommendation.toggle, None);
}
