//! `facescan-bench preprocess`: measures how many images per second become normalized, antialiased rows, from memory
//! and from JPEG files.
//!
//! `benches/preprocess` runs it in turn with other programs that do the same work. The measures take turns of a
//! twentieth of a second, so that a disturbance of the machine affects all of them. Each measure takes SECONDS in
//! total. Each turn begins with a batch that does not count and only fills the caches. The command prints JSON.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    hint::black_box,
    io::{self, Write},
    num::NonZeroUsize,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use facescan_imaging::{
    decode::{DecodeOptions, decode_within},
    memory::PixelMemory,
    preprocess::{Layout, Preprocess},
};
use image::{Rgb, RgbImage};

use crate::seconds;

const SIDES: [u32; 2] = [224, 384];
const BATCHES: [usize; 3] = [8, 16, 32];
/// The length of a turn.
const TURN: Duration = Duration::from_millis(50);
/// The number of files that are loaded one after the other, and at the same time.
const LOADED: usize = 16;

/// The threads, the time and the files.
#[derive(Debug, Args)]
pub struct PreprocessArgs {
    /// The number of threads that share a batch.
    threads: NonZeroUsize,
    /// The number of seconds for each measure.
    #[arg(value_parser = seconds)]
    seconds: f64,
    /// JPEG files.
    #[arg(required = true, value_name = "JPEG")]
    files: Vec<String>,
}

/// Runs the measures and prints JSON: images per second by measure.
pub fn run(args: &PreprocessArgs) -> anyhow::Result<ExitCode> {
    let material = Material {
        threads: args.threads.get(),
        files: &args.files,
        images: noise(BATCHES[2]),
        memory: PixelMemory::new(256 << 20),
        tensor: RefCell::new(Vec::new()),
    };
    let mut measures = material.measures();
    let limit = Duration::from_secs_f64(args.seconds * measures.len() as f64);
    let began = Instant::now();
    while began.elapsed() < limit {
        for measure in &mut measures {
            measure.take();
        }
    }
    let rates: BTreeMap<&str, f64> = measures.iter().map(Measure::rate).collect();
    writeln!(io::stdout(), "{}", serde_json::json!(rates))?;
    Ok(ExitCode::SUCCESS)
}

/// The data of the measures.
struct Material<'a> {
    threads: usize,
    files: &'a [String],
    images: Vec<RgbImage>,
    memory: PixelMemory,
    // All measures share one tensor. Memory that was idle for a while would be measured otherwise.
    tensor: RefCell<Vec<f32>>,
}

impl Material<'_> {
    fn measures(&self) -> Vec<Measure<'_>> {
        let mut measures = Vec::new();
        for side in SIDES {
            for batch in BATCHES {
                for (layout, name) in [(Layout::Nchw, "NCHW"), (Layout::Nhwc, "NHWC")] {
                    let name = format!("memory/{side}/{batch}/{name}");
                    measures.push(self.of_memory(name, side, batch, layout));
                }
                let name = format!("files/{side}/{batch}/NCHW");
                measures.push(self.of_files(name, self.threads, side, batch));
            }
        }
        if self.threads > 1 {
            for (name, threads) in [("sequential", 1), ("parallel", self.threads)] {
                let name = format!("load/{LOADED}/{name}");
                measures.push(self.of_files(name, threads, SIDES[0], LOADED));
            }
        }
        measures.push(self.decoding(BATCHES[2]));
        measures
    }

    fn of_memory(&self, name: String, side: u32, batch: usize, layout: Layout) -> Measure<'_> {
        let preprocess = to(side, layout);
        let images = &self.images[..batch];
        Measure::new(name, batch, move || {
            let mut rows = self.tensor.borrow_mut();
            let write = |image: &RgbImage, write: &mut dyn FnMut(&RgbImage)| {
                write(black_box(image));
            };
            each(self.threads, &preprocess, images, &mut rows, write);
        })
    }

    /// Reads, decodes and preprocesses files. Each thread processes one file at a time.
    fn of_files(&self, name: String, threads: usize, side: u32, batch: usize) -> Measure<'_> {
        let preprocess = to(side, Layout::Nchw);
        let some = some_of(self.files, batch);
        let (memory, tensor) = (&self.memory, &self.tensor);
        Measure::new(name, batch, move || {
            let mut rows = tensor.borrow_mut();
            each(threads, &preprocess, &some, &mut rows, |path, write| {
                let image = decoded(path, memory);
                write(&image);
                memory.keep(image.into_raw());
            });
        })
    }

    /// Reads and decodes the same files without making rows.
    fn decoding(&self, batch: usize) -> Measure<'_> {
        let none = to(1, Layout::Nchw);
        let some = some_of(self.files, batch);
        let (memory, threads) = (&self.memory, self.threads);
        let mut no_rows = Vec::new();
        Measure::new("decode".to_owned(), batch, move || {
            each(threads, &none, &some, &mut no_rows, |path, _| {
                let image = decoded(path, memory);
                memory.keep(black_box(image).into_raw());
            });
        })
    }
}

/// Batches of one kind and their total time.
struct Measure<'a> {
    name: String,
    images: usize,
    run: Box<dyn FnMut() + 'a>,
    took: Duration,
    done: usize,
}

impl<'a> Measure<'a> {
    fn new(name: String, images: usize, run: impl FnMut() + 'a) -> Self {
        Self {
            name,
            images,
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
            self.done += self.images;
        }
        self.took += began.elapsed();
    }

    fn rate(&self) -> (&str, f64) {
        let rate = self.done as f64 / self.took.as_secs_f64();
        (&self.name, (rate * 10.0).round() / 10.0)
    }
}

/// Runs `work` for every item on `threads` threads. `work` also gets the writer of its row.
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
            work(item, &mut |image| preprocess.write(image, row));
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

/// Returns `count` files. It starts again from the first file if there are fewer.
fn some_of(files: &[String], count: usize) -> Vec<&String> {
    files.iter().cycle().take(count).collect()
}

fn decoded(path: &str, memory: &PixelMemory) -> RgbImage {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let image = decode_within(&bytes, &DecodeOptions::default(), memory, None);
    image
        .unwrap_or_else(|error| panic!("{path}: {error}"))
        .pixels
}

/// Returns images of 512 × 512 with random pixels.
fn noise(count: usize) -> Vec<RgbImage> {
    let mut state = 1u32;
    let image = |_| {
        RgbImage::from_fn(512, 512, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Rgb([24, 16, 8].map(|shift| (state >> shift) as u8))
        })
    };
    (0..count).map(image).collect()
}
