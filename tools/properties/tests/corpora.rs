//! Checks the properties of the fuzz targets on the inputs in `fuzz/corpus`, on parts of them, and on random changes of
//! them. It needs no fuzzer, and always checks the same inputs.

use std::{
    cell::Cell,
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use facescan_properties::{ALL, Property};
use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestRng, TestRunner},
};

/// The time for one target in one test. A slow machine checks fewer inputs, and never fewer than [`MIN_CASES`].
const TIME: Duration = Duration::from_millis(600);

/// The number of inputs of each target that are checked in any case.
const MIN_CASES: usize = 16;

/// The largest number of prefixes of one input.
const MAX_PREFIXES: usize = 256;

/// The longest input that is cut and changed.
const MAX_LEN: usize = 8 << 10;

/// The random changes of each target, if there is time.
const CHANGES: u32 = 2000;

struct Input {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// Returns the inputs of a target, sorted by name.
fn inputs(target: &str) -> Vec<Input> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = folder.join(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 3, "{target} has {} inputs", paths.len());
    let read = |path: PathBuf| Input {
        bytes: fs::read(&path).expect("a readable file"),
        path,
    };
    paths.into_iter().map(read).collect()
}

/// Checks a property, and prints the input if the property does not hold.
fn check(target: &str, property: Property, input: &[u8], origin: &dyn std::fmt::Debug) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| property(input))) {
        eprintln!(
            "{target} does not hold for {origin:?}: {}",
            input.escape_ascii()
        );
        resume_unwind(panic);
    }
}

#[test]
fn every_target_has_its_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let names = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = entries.map(|entry| stem(entry.unwrap().path())).collect();
        names.sort();
        names
    };
    let targets = ALL.map(|(name, _)| name);
    assert_eq!(names("fuzz_targets"), targets);
    assert_eq!(names("corpus"), targets);
    for name in targets {
        assert!(
            manifest.contains(&format!("\"fuzz_targets/{name}.rs\"")),
            "{name}"
        );
    }
    for name in names("dictionaries") {
        assert!(
            targets.contains(&name.as_str()),
            "the dictionary {name} has no target"
        );
    }
}

#[test]
fn every_input_keeps_its_property() {
    for (target, property) in ALL {
        for input in inputs(target) {
            check(target, property, &input.bytes, &input.path);
        }
    }
}

#[test]
fn every_prefix_keeps_the_property() {
    for (target, property) in ALL {
        let began = Instant::now();
        let mut cases = 0;
        let mut inputs = inputs(target);
        inputs.sort_by_key(|input| input.bytes.len());
        for Input { path, bytes } in inputs.iter().filter(|input| input.bytes.len() <= MAX_LEN) {
            let step = bytes.len().div_ceil(MAX_PREFIXES).max(1);
            for end in (0..bytes.len()).step_by(step) {
                if cases >= MIN_CASES && began.elapsed() > TIME {
                    break;
                }
                check(target, property, &bytes[..end], &(path, end));
                cases += 1;
            }
        }
    }
}

/// A change of an input.
#[derive(Clone, Debug)]
enum Change {
    /// Flips one bit.
    Flip(Index, u8),
    /// Writes some bytes over others.
    Overwrite(Index, Vec<u8>),
    /// Puts a part of another input into this one.
    Splice(Index, Index, Index, usize),
    /// Removes a part.
    Remove(Index, usize),
    /// Repeats a part.
    Repeat(Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<Index>;
    let telling = prop::sample::select(vec![0, 0x7F, 0x80, 0xFF, b'"', b'[', b'{', b'\n']);
    let byte = prop_oneof![any::<u8>(), telling];
    prop_oneof![
        4 => (index(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        4 => (index(), prop::collection::vec(byte, 1..5))
            .prop_map(|(at, bytes)| Change::Overwrite(at, bytes)),
        2 => (index(), index(), index(), 1usize..64)
            .prop_map(|(at, other, from, len)| Change::Splice(at, other, from, len)),
        1 => (index(), 1usize..64).prop_map(|(at, len)| Change::Remove(at, len)),
        1 => (index(), 1usize..64).prop_map(|(at, len)| Change::Repeat(at, len)),
    ]
}

impl Change {
    fn apply(&self, input: &mut Vec<u8>, others: &[Input]) {
        let position = |at: &Index, input: &[u8]| at.index(input.len() + 1);
        let part = |at: usize, len: usize, of: &[u8]| of[at..(at + len).min(of.len())].to_vec();
        match self {
            Self::Flip(at, bit) => {
                let at = position(at, input);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Self::Overwrite(at, bytes) => {
                let at = position(at, input);
                for (old, new) in input[at..].iter_mut().zip(bytes) {
                    *old = *new;
                }
            }
            Self::Splice(at, other, from, len) => {
                let at = position(at, input);
                let other = &others[other.index(others.len())].bytes;
                let part = part(position(from, other), *len, other);
                input.splice(at..at, part);
            }
            Self::Remove(at, len) => {
                let at = position(at, input);
                input.drain(at..(at + len).min(input.len()));
            }
            Self::Repeat(at, len) => {
                let at = position(at, input);
                let part = part(at, *len, input);
                input.splice(at..at, part);
            }
        }
    }
}

#[test]
fn random_changes_keep_the_property() {
    for (target, property) in ALL {
        let began = Instant::now();
        let cases = Cell::new(0);
        let mut inputs = inputs(target);
        inputs.retain(|input| input.bytes.len() <= MAX_LEN);
        let config = Config {
            cases: CHANGES,
            failure_persistence: None,
            max_shrink_iters: 200,
            ..Config::default()
        };
        let mut runner =
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(Default::default()));
        let strategy = (any::<Index>(), prop::collection::vec(change(), 1..6));
        let outcome = runner.run(&strategy, |(chosen, changes)| {
            if cases.get() >= MIN_CASES && began.elapsed() > TIME {
                return Ok(());
            }
            cases.set(cases.get() + 1);
            let mut input = inputs[chosen.index(inputs.len())].bytes.clone();
            for change in &changes {
                change.apply(&mut input, &inputs);
            }
            check(target, property, &input, &changes);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{target}: {error}"));
    }
}
