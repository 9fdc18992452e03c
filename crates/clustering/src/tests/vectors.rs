//! People with vectors: the groups, their changes when faces are added, and the order of faces.

use super::*;
use crate::metrics::{bcubed, pairwise};

const DIM: usize = 64;
const PEOPLE: u32 = 40;

/// A face with its true person.
#[derive(Clone)]
struct Portrait {
    truth: u32,
    vector: Vec<f32>,
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
    vector
}

/// Returns 1 to 12 faces of each person in random order. Faces of one person have a similarity of about 0.6, and those of
/// two people of about 0.
fn portraits() -> Vec<Portrait> {
    let mut random = Rng::with_seed(1);
    let mut direction = |_| unit((0..DIM).map(|_| signed(&mut random)).collect());
    let mut portraits = Vec::new();
    for truth in 0..PEOPLE {
        let center = direction(0);
        for _ in 0..=truth % 12 {
            let noise = direction(0);
            let mixed = center
                .iter()
                .zip(&noise)
                .map(|(c, n)| c * 0.775 + n * 0.632);
            let vector = unit(mixed.collect());
            portraits.push(Portrait { truth, vector });
        }
    }
    Rng::with_seed(2).shuffle(&mut portraits);
    portraits
}

/// Returns the portraits with their 16 nearest neighbors and the people that they have now.
fn library(portraits: &[Portrait], people: &[Option<u32>]) -> Library {
    let mut library = Library::new(portraits.len() as u32);
    for (of, portrait) in (0..).zip(portraits) {
        let similarity = |other: &Portrait| -> f32 {
            let pairs = portrait.vector.iter().zip(&other.vector);
            pairs.map(|(a, b)| a * b).sum()
        };
        let others = (0..).zip(portraits).filter(|&(other, _)| other != of);
        let mut list: Vec<(u32, f32)> = others
            .map(|(face, other)| (face, similarity(other)))
            .collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (face, similarity) in list.into_iter().take(16) {
            library.list(of, face, similarity);
        }
        library.faces[of as usize].person = people.get(of as usize).copied().flatten();
    }
    library
}

/// Returns the person of each face; new people have numbers from 1000.
fn run(portraits: &[Portrait], people: &[Option<u32>], scope: Scope) -> Vec<Option<u32>> {
    let settings = Settings::new(0.5, 0.45);
    let assignments = library(portraits, people).group(&settings, scope);
    let person = |assignment| match assignment {
        Assignment::Person(person) => Some(person),
        Assignment::New(number) => Some(1000 + number),
        Assignment::None => None,
    };
    assignments.into_iter().map(person).collect()
}

/// Returns the person of each face, of whom none had one before.
fn first_run(portraits: &[Portrait]) -> Vec<Option<u32>> {
    let people = run(portraits, &[], Scope::Full).into_iter();
    people.map(|person| Some(person? - 1000)).collect()
}

fn with_truth(portraits: &[Portrait], found: &[Option<u32>]) -> Vec<(u32, Option<u32>)> {
    let truths = portraits.iter().map(|portrait| portrait.truth);
    truths.zip(found.iter().copied()).collect()
}

/// Returns the share of the faces with a person before that have another person or none after.
fn churn(before: &[Option<u32>], after: &[Option<u32>]) -> f64 {
    let pairs = before.iter().zip(after);
    let had: Vec<_> = pairs.filter(|(had, _)| had.is_some()).collect();
    let changed = had.iter().filter(|(before, after)| before != after);
    changed.count() as f64 / had.len() as f64
}

#[test]
fn people_are_found() {
    let portraits = portraits();
    let found = with_truth(&portraits, &run(&portraits, &[], Scope::Full));
    assert!(pairwise(&found).precision >= 0.99, "{:?}", pairwise(&found));
    assert!(bcubed(&found).f() >= 0.98, "{:?}", bcubed(&found));
}

#[test]
fn new_faces_join_the_people_of_before() {
    let portraits = portraits();
    let old = portraits.len() * 9 / 10;
    let before = first_run(&portraits[..old]);
    let after = run(&portraits, &before, Scope::New);
    assert_eq!(churn(&before, &after), 0.0);
    let full = run(&portraits, &[], Scope::Full);
    let f = |found: &[Option<u32>]| bcubed(&with_truth(&portraits, found)).f();
    assert!(f(&after) >= f(&full) - 0.01, "{} {}", f(&after), f(&full));
    // Grouped again from the start, nearly every face stays with its person.
    let again = run(&portraits, &before, Scope::Full);
    let churn = churn(&before, &again);
    assert!(churn <= 0.005, "{churn}");
}

#[test]
fn a_second_run_changes_nothing() {
    let portraits = portraits();
    let first = first_run(&portraits);
    assert_eq!(run(&portraits, &first, Scope::Full), first);
    assert_eq!(run(&portraits, &first, Scope::New), first);
}
