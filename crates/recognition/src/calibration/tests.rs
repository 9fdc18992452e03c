use super::*;

fn point(far: f64, threshold: f32) -> OperatingPoint {
    OperatingPoint {
        far,
        far_low: far / 2.0,
        far_high: far * 2.0,
        threshold,
        threshold_low: threshold - 0.01,
        threshold_high: threshold + 0.01,
        tar: 0.9,
        tar_low: 0.8,
        tar_high: 1.0,
    }
}

fn calibration(points: Vec<OperatingPoint>) -> Calibration {
    Calibration {
        vector_space: "c".to_owned(),
        embedder: "e".to_owned(),
        detector: "d".to_owned(),
        precision: None,
        set: CalibrationSet {
            name: "set".to_owned(),
            sha256: "0".to_owned(),
            images: 10,
            without_face: 0,
            people: 5,
        },
        genuine_pairs: 5,
        impostor_pairs: 1000,
        points,
    }
}

fn table() -> Calibration {
    calibration(vec![point(0.1, 0.2), point(0.01, 0.3), point(0.001, 0.5)])
}

#[test]
fn thresholds_and_rates_are_interpolated_in_the_logarithm_of_the_rate() {
    let table = table();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} {b}");
    for (far, threshold) in [
        (0.1, 0.2),
        (0.01, 0.3),
        (0.001, 0.5),
        (10f64.powf(-1.5), 0.25),
    ] {
        close(f64::from(table.threshold(far).unwrap()), threshold);
        let estimate = table.far(threshold as f32).unwrap();
        assert!((estimate.value / far - 1.0).abs() < 1e-4, "{estimate:?}");
        assert!((estimate.low / far - 0.5).abs() < 1e-4, "{estimate:?}");
        assert!((estimate.high / far - 2.0).abs() < 1e-3, "{estimate:?}");
        assert_eq!(estimate.bound, Bound::Exact);
        assert_eq!((estimate.set.as_str(), estimate.pairs), ("set", 1000));
    }
    for outside in [0.2, 0.0009, 0.0, -1.0, f64::NAN] {
        assert_eq!(table.threshold(outside), None, "{outside}");
    }
}

#[test]
fn a_cosine_outside_the_table_has_a_bound() {
    let table = table();
    let bound = |cosine: f32| {
        let estimate = table.far(cosine).unwrap();
        (estimate.value, estimate.bound)
    };
    assert_eq!(bound(0.1), (0.1, Bound::AtLeast));
    assert_eq!(bound(0.6), (0.001, Bound::AtMost));
    assert_eq!(bound(0.5), (0.001, Bound::Exact));
    assert_eq!(table.far(0.1).unwrap().high, 1.0);
    assert_eq!(table.far(0.6).unwrap().low, 0.0);
}

#[test]
fn an_interval_that_reaches_zero_is_interpolated_too() {
    let mut lowest = point(0.001, 0.5);
    lowest.far_low = 0.0;
    let table = calibration(vec![point(0.01, 0.3), lowest]);
    for cosine in [0.31, 0.4, 0.49] {
        let estimate = table.far(cosine).unwrap();
        assert!(
            estimate.low > 0.0 && estimate.low <= estimate.value,
            "{estimate:?}"
        );
    }
}

#[test]
fn tables_that_are_not_plausible_are_refused() {
    let mut known = Calibrations::default();
    let path = Path::new("own.yaml");
    let mut add = |points: Vec<OperatingPoint>| {
        let text = serde_json::to_string(&[calibration(points)]).unwrap();
        known.add(&text, path).map_err(|error| error.to_string())
    };
    assert_eq!(add(vec![point(0.1, 0.2), point(0.01, 0.3)]), Ok(()));
    for points in [
        vec![],
        vec![point(0.1, 0.2)],
        vec![point(0.01, 0.3), point(0.1, 0.2)],
        vec![point(0.1, 0.3), point(0.01, 0.2)],
        vec![point(0.1, 0.2), point(0.0, 0.3)],
        vec![point(0.6, 0.2), point(0.01, 0.3)],
        vec![point(0.1, 0.2), point(0.01, 1.3)],
    ] {
        let error = add(points.clone()).unwrap_err();
        assert!(
            error.starts_with("own.yaml: the calibration of c: "),
            "{error} {points:?}"
        );
    }
    let error = known.add("- far: 1", path).unwrap_err().to_string();
    assert!(
        error.starts_with("own.yaml is not a file of calibrations"),
        "{error}"
    );
}

#[test]
fn the_built_in_calibrations_are_of_models_in_the_registry() {
    let registry = facescan_inference::registry::Registry::embedded().unwrap();
    let known = Calibrations::load(&[]).unwrap();
    assert!(known.iter().count() > 0);
    for calibration in known.iter() {
        let embedder = registry.get(&calibration.embedder).unwrap();
        assert_eq!(embedder.vector_space(), calibration.vector_space);
        assert!(registry.get(&calibration.detector).is_ok());
        assert_eq!(known.of(&calibration.vector_space), Some(calibration));
    }
}

#[test]
fn a_written_table_is_read_again() {
    let mut known = Calibrations::default();
    let text = serde_saphyr::to_string(&[table()]).unwrap();
    known.add(&text, Path::new("own.yaml")).unwrap();
    assert_eq!(known.of("c"), Some(&table()));
}

#[test]
fn a_missing_file_is_named() {
    let error = Calibrations::load(&["/nowhere/own.yaml".into()]).unwrap_err();
    assert!(error.to_string().contains("/nowhere/own.yaml"), "{error}");
}
