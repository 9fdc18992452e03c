//! How many pictures a second become rows: antialiased, normalised, from memory and from JPEG files.
//!
//!     preprocess_rate THREADS SECONDS JPEG…
//!
//! `benches/preprocess` runs it in turn with what others do the same work with. The measures take turns of a twentieth of a
//! second, so that what disturbs the machine disturbs them all, and together they take SECONDS for each. A turn begins with a
//! batch that does not count, which brings its memory back into the caches. Prints JSON.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    hint::black_box,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use facescan_imaging::{
    decode::{DecodeOptions, decode_within},
    memory::PixelMemory,
    preprocess::{Layout, Preprocess},
};
use image::{Rgb, RgbImage};

/// The program's, which begins large memory at a line of the caches.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SIDES: [u32; 2] = [224, 384];
const BATCHES: [usize; 3] = [8, 16, 32];
/// How long a turn is.
const TURN: Duration = Duration::from_millis(50);
/// Files that are loaded one after the other, and at the same time.
const LOADED: usize = 16;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().and_then(|text| text.parse::<f64>().ok());
    let numbers = (number(), number());
    let files: Vec<String> = args.collect();
    let ((Some(threads), Some(seconds)), false) = (numbers, files.is_empty()) else {
        eprintln!("usage: preprocess_rate THREADS SECONDS JPEG…");
        std::process::exit(2);
    };
    let pictures = noise(BATCHES[2]);
    let memory = PixelMemory::new(256 << 20);
    // One tensor for all, as memory that has rested would be measured instead.
    let tensor = RefCell::new(Vec::new());
    let threads = threads as usize;
    let mut measures = Vec::new();
    for side in SIDES {
        for batch in BATCHES {
            for layout in [Layout::Nchw, Layout::Nhwc] {
                let preprocess = to(side, layout);
                let name = format!("memory/{side}/{batch}/{}", layout_name(layout));
                let pictures = &pictures[..batch];
                let tensor = &tensor;
                measures.push(Measure::new(name, batch, move || {
                    let mut rows = tensor.borrow_mut();
                    each(
                        threads,
                        &preprocess,
                        pictures,
                        &mut rows,
                        |picture, write| {
                            write(black_box(picture));
                        },
                    );
                }));
            }
            let preprocess = to(side, Layout::Nchw);
            let name = format!("files/{side}/{batch}/NCHW");
            let some = some_of(&files, batch);
            measures.push(loading(name, threads, preprocess, some, (&memory, &tensor)));
        }
    }
    if threads > 1 {
        for (name, threads) in [("sequential", 1), ("parallel", threads)] {
            let name = format!("load/{LOADED}/{name}");
            let preprocess = to(SIDES[0], Layout::Nchw);
            let some = some_of(&files, LOADED);
            measures.push(loading(name, threads, preprocess, some, (&memory, &tensor)));
        }
    }
    // The same work without the rows.
    let (memory, batch, none) = (&memory, BATCHES[2], to(1, Layout::Nchw));
    let some = some_of(&files, batch);
    let mut no_rows = Vec::new();
    measures.push(Measure::new("decode".to_owned(), batch, move || {
        each(threads, &none, &some, &mut no_rows, |path, _| {
            memory.keep(black_box(decoded(path, memory)).into_raw());
        });
    }));
    let limit = Duration::from_secs_f64(seconds * measures.len() as f64);
    let began = Instant::now();
    while began.elapsed() < limit {
        for measure in &mut measures {
            measure.take();
        }
    }
    let rates: BTreeMap<&str, f64> = measures.iter().map(Measure::rate).collect();
    println!("{}", serde_json::json!(rates));
}

/// Batches of one kind, and the time that they took.
struct Measure<'a> {
    name: String,
    pictures: usize,
    run: Box<dyn FnMut() + 'a>,
    took: Duration,
    done: usize,
}

impl<'a> Measure<'a> {
    fn new(name: String, pictures: usize, run: impl FnMut() + 'a) -> Self {
        Self {
            name,
            pictures,
            run: Box::new(run),
            took: Duration::ZERO,
            done: 0,
        }
    }

    fn take(&mut self) {
        (self.run)();
        let began = Instant::now();
        while began.elapsed() < TURN {
            (self.run)();
            self.done += self.pictures;
        }
        self.took += began.elapsed();
    }

    fn rate(&self) -> (&str, f64) {
        let rate = self.done as f64 / self.took.as_secs_f64();
        (&self.name, (rate * 10.0).round() / 10.0)
    }
}

/// Reads, decodes and preprocesses files, each thread one at a time.
fn loading<'a>(
    name: String,
    threads: usize,
    preprocess: Preprocess,
    some: Vec<&'a String>,
    (memory, tensor): (&'a PixelMemory, &'a RefCell<Vec<f32>>),
) -> Measure<'a> {
    Measure::new(name, some.len(), move || {
        let mut rows = tensor.borrow_mut();
        each(threads, &preprocess, &some, &mut rows, |path, write| {
            let picture = decoded(path, memory);
            write(&picture);
            memory.keep(picture.into_raw());
        });
    })
}

/// Does `work` for every item on `threads` threads, with what writes its row.
fn each<T: Sync>(
    threads: usize,
    preprocess: &Preprocess,
    items: &[T],
    tensor: &mut Vec<f32>,
    work: impl Fn(&T, &mut dyn FnMut(&RgbImage)) + Sync,
) {
    let len = preprocess.row_len((1, 1));
    tensor.resize(tensor.len().max(items.len() * len), 0.0);
    let rows = &mut tensor[..items.len() * len];
    let left = Mutex::new(items.iter().zip(rows.chunks_exact_mut(len)));
    let run = || {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((item, row)) = next else { break };
            work(item, &mut |picture| preprocess.write(picture, row));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    black_box(rows);
}

fn to(side: u32, layout: Layout) -> Preprocess {
    Preprocess {
        height: side,
        width: side,
        layout,
        ..Preprocess::default()
    }
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Nchw => "NCHW",
        Layout::Nhwc => "NHWC",
    }
}

/// So many files, again from the first where there are fewer.
fn some_of(files: &[String], count: usize) -> Vec<&String> {
    files.iter().cycle().take(count).collect()
}

fn decoded(path: &str, memory: &PixelMemory) -> RgbImage {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let picture = decode_within(&bytes, &DecodeOptions::default(), memory);
    picture
        .unwrap_or_else(|error| panic!("{path}: {error}"))
        .pixels
}

/// Pictures of 512 × 512 without a pattern.
fn noise(count: usize) -> Vec<RgbImage> {
    let mut state = 1u32;
    let picture = |_| {
        RgbImage::from_fn(512, 512, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Rgb([24, 16, 8].map(|shift| (state >> shift) as u8))
        })
    };
    (0..count).map(picture).collect()
}
