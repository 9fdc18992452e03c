//! The shapes that a model is compiled for.
//!
//! A model that is compiled for one shape of its input is 10 to 25 % faster than one that is compiled for every shape.
//! But compilation takes a tenth of a second or more, and memory for each shape. So only shapes that occur often are
//! compiled.

use std::collections::HashMap;

/// The number of shapes that are compiled at the same time. Most cameras and websites use fewer aspect ratios.
const MAX_SHAPES: usize = 4;

/// The number of runs with a shape before it is compiled.
const RUNS_BEFORE: u32 = 8;

/// The number of runs without a shape after which another shape may replace it.
const STALE_AFTER: u64 = 1000;

/// The number of shapes that are counted. All counts start again when there are more.
const MAX_COUNTED: usize = 256;

/// A `T` for each shape that occurs often.
pub(super) struct CompiledShapes<T> {
    entries: Vec<Entry<T>>,
    runs_of: HashMap<Vec<usize>, u32>,
    runs: u64,
    is_compiling: bool,
    next_id: u64,
}

struct Entry<T> {
    id: u64,
    shape: Vec<usize>,
    compiled: T,
    last_run: u64,
}

/// What runs a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// What is compiled for the shape. It has this id.
    Compiled(u64),
    /// What is compiled for every shape.
    AnyShape,
    /// The caller compiles for the shape and calls [`CompiledShapes::insert`] or [`CompiledShapes::give_up`]. Other
    /// callers use what is compiled for every shape until then.
    Compile,
}

impl<T> CompiledShapes<T> {
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            runs_of: HashMap::new(),
            runs: 0,
            is_compiling: false,
            next_id: 0,
        }
    }

    /// Counts a run with `shape`, and chooses what runs it.
    pub fn choose(&mut self, shape: &[usize]) -> Choice {
        self.runs += 1;
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.shape == shape) {
            entry.last_run = self.runs;
            return Choice::Compiled(entry.id);
        }
        if self.runs_of.len() >= MAX_COUNTED && !self.runs_of.contains_key(shape) {
            self.runs_of.clear();
        }
        let runs = self.runs_of.entry(shape.to_vec()).or_insert(0);
        *runs = runs.saturating_add(1);
        if *runs <= RUNS_BEFORE || self.is_compiling || !self.has_room() {
            return Choice::AnyShape;
        }
        self.is_compiling = true;
        Choice::Compile
    }

    /// Adds what is compiled for a shape, and returns its id. Replaces the shape that was used longest ago if there are
    /// too many.
    pub fn insert(&mut self, shape: Vec<usize>, compiled: T) -> u64 {
        if self.entries.len() == MAX_SHAPES
            && let Some(oldest) = self.oldest()
        {
            self.entries.swap_remove(oldest);
        }
        self.runs_of.remove(&shape);
        self.is_compiling = false;
        self.next_id += 1;
        self.entries.push(Entry {
            id: self.next_id,
            shape,
            compiled,
            last_run: self.runs,
        });
        self.next_id
    }

    /// Ends a compilation that failed. The shape is counted again from the start.
    pub fn give_up(&mut self, shape: &[usize]) {
        self.is_compiling = false;
        self.runs_of.remove(shape);
    }

    /// Returns what is compiled with this id. Returns `None` if it was replaced.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id);
        entry.map(|entry| &mut entry.compiled)
    }

    fn has_room(&self) -> bool {
        let is_stale = |entry: &Entry<T>| self.runs - entry.last_run > STALE_AFTER;
        self.entries.len() < MAX_SHAPES || self.entries.iter().any(is_stale)
    }

    fn oldest(&self) -> Option<usize> {
        (0..self.entries.len()).min_by_key(|&index| self.entries[index].last_run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shape `times` times. Returns the number of compilations, and of runs with what is compiled for the shape.
    fn run(shapes: &mut CompiledShapes<usize>, shape: &[usize], times: usize) -> (usize, usize) {
        let (mut compilations, mut compiled) = (0, 0);
        for _ in 0..times {
            let id = match shapes.choose(shape) {
                Choice::AnyShape => continue,
                Choice::Compiled(id) => id,
                Choice::Compile => {
                    compilations += 1;
                    shapes.insert(shape.to_vec(), shape[0])
                }
            };
            assert_eq!(shapes.get_mut(id), Some(&mut shape[0].clone()));
            compiled += 1;
        }
        (compilations, compiled)
    }

    #[test]
    fn a_shape_is_compiled_once_when_it_occurs_often() {
        let mut shapes = CompiledShapes::new();
        let before = RUNS_BEFORE as usize;
        assert_eq!(run(&mut shapes, &[1, 3], before), (0, 0));
        assert_eq!(run(&mut shapes, &[1, 3], 5), (1, 5));
    }

    #[test]
    fn one_caller_compiles_at_a_time() {
        let mut shapes = CompiledShapes::<usize>::new();
        let mut choose = |shape: &[usize]| {
            let mut last = Choice::AnyShape;
            for _ in 0..=RUNS_BEFORE {
                last = shapes.choose(shape);
            }
            last
        };
        assert_eq!(choose(&[1]), Choice::Compile);
        assert_eq!(choose(&[1]), Choice::AnyShape, "the first caller compiles");
        assert_eq!(choose(&[2]), Choice::AnyShape);
        shapes.give_up(&[1]);
        assert_eq!(shapes.choose(&[2]), Choice::Compile);
    }

    #[test]
    fn a_new_shape_replaces_one_that_is_no_longer_used() {
        let mut shapes = CompiledShapes::new();
        let often = 2 * RUNS_BEFORE as usize;
        for first in 0..MAX_SHAPES {
            assert_eq!(run(&mut shapes, &[first], often).0, 1);
        }
        assert_eq!(run(&mut shapes, &[9], often), (0, 0), "all are in use");
        let stale = STALE_AFTER as usize + 1;
        assert_eq!(run(&mut shapes, &[1], stale), (0, stale));
        assert_eq!(run(&mut shapes, &[9], 1), (1, 1));
        assert_eq!(run(&mut shapes, &[1], 1), (0, 1));
        assert_eq!(run(&mut shapes, &[0], 1), (0, 0), "it was replaced");
    }

    #[test]
    fn shapes_that_never_repeat_take_no_memory() {
        let mut shapes = CompiledShapes::new();
        for first in 0..10 * MAX_COUNTED {
            assert_eq!(run(&mut shapes, &[first], 1), (0, 0));
        }
        assert!(shapes.runs_of.len() <= MAX_COUNTED);
    }
}
