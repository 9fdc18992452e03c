//! `facescan-bench soak`: checks whether a server's memory stays flat over many requests of every kind.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use facescan::cli::bench::{
    images::{Image, load_images},
    process::Processes,
    report::{self, Render, Table, figure},
    run_to_end,
};
use futures::{StreamExt, stream::FuturesUnordered};
use http::{
    Request,
    header::{CONTENT_TYPE, HOST},
};
use http_body_util::Full;
use serde::Serialize;
use tokio::time::timeout;

use crate::{
    Settings,
    load::{
        clients,
        connection::{Reusable, exchange},
        target::Target,
    },
    own_server::OwnServer,
    plots::Plots,
};
use facescan_imaging::{
    decode::{DecodeOptions, decode},
    encode::{OutputFormat, encode},
    limits::Limits,
    resize::{Filter, resize},
};

/// The long sides of the smaller copies of each image.
const SIDES: [u32; 4] = [96, 240, 480, 800];

/// The requests, and the number of each in a hundred requests. The detector's input sizes differ, so that rows of many
/// shapes occur. The outcomes of the requests differ too.
const MIX: [(&str, u32); 9] = [
    ("/detect?store=false&det_size=160", 24),
    ("/detect?store=false&det_size=320", 20),
    ("/detect?store=false&second_det_size=96&det_size=192", 8),
    ("/detect?det_size=256", 14),
    ("/embed?store=false&det_size=192&crops=true", 12),
    ("/embed?det_size=256&max_faces=2", 6),
    ("/quality?store=false&det_size=224", 10),
    ("/enhance", 4),
    ("/detect?store=false&min_scor=1", 2),
];

/// One request in this many carries an image that is cut in half. Another one carries an image in its original size.
const RARE: usize = 32;

/// The client of one request in this many leaves before the answer, within this many milliseconds.
const LEAVES: (usize, u64) = (50, 40);

/// The number of parts of the run whose memory is compared.
const PARTS: usize = 10;

/// The number and the kind of the requests.
#[derive(Debug, Args, Serialize)]
pub struct SoakArgs {
    /// The number of requests.
    #[arg(long, default_value_t = 100_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(PARTS as u64..))]
    requests: u64,
    /// The number of clients. Each client sends its next request when the last one is answered.
    #[arg(long, default_value_t = 16, value_parser = clients)]
    clients: usize,
    /// Images, or folders of images. Smaller copies of each image are sent too.
    #[arg(long, num_args = 1.., value_name = "FILE|DIR", default_value = ".runtime/pictures")]
    images: Vec<PathBuf>,
    /// The seed of the order of the requests. The same seed results in the same order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write report.json, report.md and a plot to this folder.
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    output: Option<PathBuf>,
}

impl fmt::Display for SoakArgs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} requests of {} clients",
            self.requests, self.clients
        )
    }
}

/// The result of a soak.
#[derive(Debug, Serialize)]
struct SoakFigures {
    /// The number of answers by status.
    answers: BTreeMap<u16, u64>,
    /// The number of requests whose connection failed.
    failed: u64,
    /// The number of requests whose client left before the answer.
    left: u64,
    /// The resident memory in MiB in each tenth of the run: the median of its samples.
    tenths: Vec<f64>,
    /// The maximum.
    peak: f64,
    /// The growth from the second tenth to the last one in MiB. The first tenth is the warm-up.
    growth: f64,
    /// All samples, one for each hundredth of the run.
    curve: Vec<f64>,
}

/// Sends the requests and prints how the memory developed.
///
/// # Errors
/// Returns an error if an image or the server is missing, or the report cannot be written.
pub fn run(settings: &Settings, args: &SoakArgs) -> anyhow::Result<ExitCode> {
    let images = load_images(&args.images)?;
    let figures = run_to_end(async {
        let server = OwnServer::start(settings).await?;
        let target = Target::parse(server.url(), "/detect", "")?;
        let requests = requests(&target, &bodies(&images)?)?;
        soak(&target, &requests, server.pid(), args).await
    })?;
    let is_alive = figures.failed == 0;
    report::publish(args, &figures, args.output.as_deref())?;
    Ok(if is_alive {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The request bodies: usual ones, images in their original size, and broken images.
struct Bodies {
    usual: Vec<Bytes>,
    own: Vec<Bytes>,
    broken: Vec<Bytes>,
}

fn bodies(images: &[Image]) -> anyhow::Result<Bodies> {
    let options = DecodeOptions {
        limits: Limits::default(),
        background: [255; 3],
    };
    let mut usual = Vec::new();
    for image in images {
        let pixels = decode(&image.bytes, &options)
            .with_context(|| format!("decoding {}", image.path.display()))?
            .pixels;
        let longest = pixels.width().max(pixels.height());
        for side in SIDES {
            let scaled = |of: u32| of * side / longest;
            let (width, height) = (scaled(pixels.width()), scaled(pixels.height()));
            let smaller = resize(&pixels, width, height, Filter::Bilinear);
            usual.push(encode(&smaller, OutputFormat::Jpeg { quality: 85 })?.into());
        }
    }
    Ok(Bodies {
        own: images.iter().map(|image| image.bytes.clone()).collect(),
        broken: usual
            .iter()
            .map(|body: &Bytes| body.slice(..body.len() / 2))
            .collect(),
        usual,
    })
}

/// The requests by type of body.
struct Requests {
    usual: Vec<Reusable>,
    own: Vec<Reusable>,
    broken: Vec<Reusable>,
}

fn requests(target: &Target, bodies: &Bodies) -> anyhow::Result<Requests> {
    let made = |bodies: &[Bytes]| -> anyhow::Result<Vec<Reusable>> {
        let mut made = Vec::new();
        for body in bodies {
            for (path, share) in MIX {
                let request = Request::post(path)
                    .header(HOST, &target.host)
                    .header(CONTENT_TYPE, "application/octet-stream")
                    .body(Full::new(body.clone()))
                    .context("making a request")?;
                made.extend(std::iter::repeat_n(request, share as usize));
            }
        }
        Ok(made)
    };
    Ok(Requests {
        usual: made(&bodies.usual)?,
        own: made(&bodies.own)?,
        broken: made(&bodies.broken)?,
    })
}

impl Requests {
    fn choose(&self, rng: &mut fastrand::Rng) -> Option<&Reusable> {
        let kind = match rng.usize(..RARE) {
            0 => &self.own,
            1 => &self.broken,
            _ => &self.usual,
        };
        rng.choice(kind)
    }
}

async fn soak(
    target: &Target,
    requests: &Requests,
    pid: u32,
    args: &SoakArgs,
) -> anyhow::Result<SoakFigures> {
    let rng = RefCell::new(fastrand::Rng::with_seed(args.seed));
    let sent = Cell::new(0u64);
    let failed = Cell::new(0);
    let left = Cell::new(0);
    let answers = RefCell::new(BTreeMap::new());
    let memory = RefCell::new((Processes::new(&[pid]), Vec::new()));
    let every = (args.requests / 100).max(1);
    let client = || async {
        let mut connection = None;
        while sent.get() < args.requests {
            sent.set(sent.get() + 1);
            if sent.get().is_multiple_of(every) {
                let (processes, curve) = &mut *memory.borrow_mut();
                curve.extend(processes.memory());
            }
            let (request, patience) = {
                let mut rng = rng.borrow_mut();
                let request = requests.choose(&mut rng).context("there are no images")?;
                let leaves = rng.usize(..LEAVES.0) == 0;
                (request, leaves.then(|| rng.u64(1..=LEAVES.1)))
            };
            let patience = patience.map_or(Duration::MAX, Duration::from_millis);
            match timeout(patience, exchange(target, &mut connection, request)).await {
                Ok(Ok(answer)) => {
                    let mut answers = answers.borrow_mut();
                    *answers.entry(answer.status.as_u16()).or_insert(0) += 1;
                }
                Ok(Err(_)) => failed.set(failed.get() + 1),
                Err(_) => left.set(left.get() + 1),
            }
        }
        anyhow::Ok(())
    };
    let mut running: FuturesUnordered<_> = (0..args.clients).map(|_| client()).collect();
    while let Some(outcome) = running.next().await {
        outcome?;
    }
    drop(running);
    let (_, curve) = memory.into_inner();
    let tenths: Vec<f64> = curve
        .chunks(curve.len().div_ceil(PARTS).max(1))
        .map(median)
        .collect();
    Ok(SoakFigures {
        answers: answers.into_inner(),
        failed: failed.get(),
        left: left.get(),
        peak: curve.iter().copied().fold(0.0, f64::max),
        growth: match (tenths.get(1), tenths.last()) {
            (Some(second), Some(last)) => last - second,
            _ => 0.0,
        },
        tenths,
        curve,
    })
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

impl Render for SoakFigures {
    fn markdown(&self) -> String {
        let mut table = Table::new(["", "value"]);
        for (status, count) in &self.answers {
            table.row(&[&format!("answers with {status}"), count]);
        }
        table.row(&[&"connection failures", &self.failed]);
        table.row(&[&"clients that left", &self.left]);
        let tenths: Vec<String> = self.tenths.iter().map(|mib| figure(*mib)).collect();
        table.row(&[
            &"memory by tenth of the run, MiB, medians",
            &tenths.join(" "),
        ]);
        table.row(&[&"most, MiB", &figure(self.peak)]);
        table.row(&[
            &"last tenth minus the second, MiB",
            &format!("{:+.1}", self.growth),
        ]);
        table.to_string()
    }

    fn draw(&self, folder: &Path) -> anyhow::Result<()> {
        Plots {
            memory: vec![("server".to_owned(), self.curve.clone())],
            ..Plots::default()
        }
        .draw(folder)
    }
}
