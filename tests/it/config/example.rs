//! `.env.example`.

use std::collections::BTreeSet;

use facescan_config::{CONFIG_FILE, Origin, PREFIX, short_names};

use super::Setup;

/// Loads `.env.example` with every setting uncommented.
#[test]
fn every_line_of_the_example_is_a_known_setting_with_an_allowed_value() {
    let example = include_str!("../../../.env.example");
    let settings: Vec<&str> = example
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .collect();
    let names: BTreeSet<&str> = settings
        .iter()
        .filter_map(|line| line.split('=').next())
        .collect();
    for (short, _) in short_names() {
        assert!(names.contains(short), "{short} is missing");
    }
    for name in &names {
        let known = name.starts_with(PREFIX) || short_names().any(|(short, _)| short == *name);
        assert!(known || *name == CONFIG_FILE, "{name} is unknown");
    }
    // The configuration file that the example names does not exist, so the test sets another one.
    let setup = Setup::new().dotenv(&settings.join("\n")).file("");
    let (_, provenance) = setup.load().unwrap();
    let set = provenance
        .iter()
        .filter(|(_, origin)| matches!(origin, Origin::Dotenv(_)))
        .count();
    assert_eq!(set, names.len() - 1, "all but {CONFIG_FILE} set something");

    let untouched = Setup::new().dotenv(example).load().unwrap().1;
    assert!(
        untouched
            .iter()
            .all(|(_, origin)| *origin == Origin::Default)
    );
}
