//! `facescan-bench load`: measures a server under load over HTTP.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use facescan::cli::bench::{images::Image, process::Processes, report, run_to_end};
use http::StatusCode;
use serde::Serialize;
use tokio::time::{sleep_until, timeout};

use crate::{
    Settings,
    own_server::OwnServer,
    workload::{Window, Workload, positive},
};
use connection::get;
use generator::{Generator, Pace};
use process::{Usage, watch};
use prometheus::{Batches, Counters};
use tally::Totals;
use target::Target;

mod arrivals;
pub mod connection;
pub mod generator;
mod process;
mod prometheus;
mod render;
pub mod tally;
pub mod target;

/// The time limit for reading a server's metrics. The report omits them after that.
const METRICS: Duration = Duration::from_secs(5);

/// The target, the requests and the rate.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The address of a running server, this one or a peer. Without a path, the operation's path is used.
    #[arg(long)]
    url: Option<String>,
    /// The query of every request; empty for peers without this option.
    #[arg(long, default_value = "store=false")]
    query: String,
    /// Closed loop: the number of clients. Each client sends its next image when the last one is answered.
    #[arg(long, default_value_t = 8, conflicts_with = "rate", value_parser = clients)]
    clients: usize,
    /// Open loop: the number of requests per second. They are sent at random times and do not wait for answers.
    #[arg(long, value_parser = positive, value_name = "PER SECOND")]
    rate: Option<f64>,
    /// The maximum number of connections of an open loop. Requests wait if all are in use, and the wait counts as
    /// latency.
    #[arg(long, default_value_t = MAX_CONNECTIONS, value_name = "COUNT")]
    max_connections: usize,
    /// The id of a process of the server at --url, to report its CPU time and memory; can be given several times.
    #[arg(long, requires = "url")]
    pid: Vec<u32>,
    #[command(flatten)]
    workload: Workload,
    /// Write report.json, report.md and plots to this folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The default maximum number of connections. It is below the usual limit of open files.
pub const MAX_CONNECTIONS: usize = 900;

/// Parses a number of clients.
pub fn clients(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|clients| (1..=MAX_CONNECTIONS).contains(clients))
        .ok_or_else(|| format!("must be a whole number from 1 to {MAX_CONNECTIONS}"))
}

/// A server to measure.
pub struct Subject {
    /// The target of the requests.
    pub target: Target,
    /// The processes of the server, if they are known.
    pub pids: Vec<u32>,
}

impl Subject {
    /// Creates a subject from a server that this program started.
    ///
    /// # Errors
    /// Returns an error if the query cannot be part of an address.
    pub fn own(server: &OwnServer, workload: &Workload, query: &str) -> anyhow::Result<Self> {
        Ok(Self {
            target: Target::parse(server.url(), &path(workload), query)?,
            pids: vec![server.pid()],
        })
    }

    /// Creates a subject from the address of a running server.
    ///
    /// # Errors
    /// Returns an error if the address cannot be parsed.
    pub fn running(url: &str, workload: &Workload, query: &str) -> anyhow::Result<Self> {
        Ok(Self {
            target: Target::parse(url, &path(workload), query)?,
            pids: Vec::new(),
        })
    }
}

fn path(workload: &Workload) -> String {
    format!("/{}", workload.operation.name())
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct LoadFigures {
    /// The pace of the requests.
    pub pace: Pace,
    /// The requests, answers and latencies.
    #[serde(flatten)]
    pub totals: Totals,
    /// The number of cores that the generator used itself. It shares the cores with the server.
    pub generator_cores: Option<f64>,
    /// The resources that the server's processes used, if the processes are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Usage>,
    /// The batches that the server ran, by operation, if the server counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batches: Option<BTreeMap<String, Batches>>,
}

/// Measures a server under load for the time of the workload.
///
/// # Errors
/// Returns an error if the load cannot be generated. A failing server is a result and not an error.
pub async fn measure(
    subject: &Subject,
    images: &[Image],
    workload: &Workload,
    pace: Pace,
    most_connections: usize,
) -> anyhow::Result<LoadFigures> {
    let requests = generator::requests(&subject.target, images)?;
    let window = workload.window();
    let generator = Generator {
        target: &subject.target,
        requests: &requests,
        sequence: workload.sequence(images.len()),
        window,
        seed: workload.seed,
        most_connections,
    };
    let (totals, own, server, batches) = tokio::join!(
        generator.run(pace),
        watch(Processes::new(&[std::process::id()]), window),
        watch(Processes::new(&subject.pids), window),
        batches(&subject.target, window),
    );
    Ok(LoadFigures {
        pace,
        totals: totals?,
        generator_cores: own.map(|usage| usage.cores),
        server,
        batches,
    })
}

/// Returns the batches that the server ran in the window.
async fn batches(target: &Target, window: Window) -> Option<BTreeMap<String, Batches>> {
    sleep_until(window.start.into()).await;
    // A server that has run no batch may not list the metric yet.
    let before = counters(target).await.unwrap_or_default();
    sleep_until(window.end.into()).await;
    Some(counters(target).await?.since(&before))
}

async fn counters(target: &Target) -> Option<Counters> {
    let metrics = target.at("/metrics");
    let (status, body) = timeout(METRICS, get(&metrics)).await.ok()?.ok()?;
    Counters::read(
        std::str::from_utf8(&body)
            .ok()
            .filter(|_| status.is_success())?,
    )
}

/// Measures one server and prints the figures.
///
/// # Errors
/// Returns an error if an image or the server is missing, or the report cannot be written.
pub fn run(settings: &Settings, args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let images = args.workload.load()?;
    let pace = args.rate.map_or(Pace::Clients(args.clients), Pace::Rate);
    let figures = run_to_end(async {
        let (_own, subject) = match &args.url {
            Some(url) => {
                let mut subject = Subject::running(url, &args.workload, &args.query)?;
                subject.pids.clone_from(&args.pid);
                (None, subject)
            }
            None => {
                let own = OwnServer::start(settings).await?;
                let subject = Subject::own(&own, &args.workload, &args.query)?;
                (Some(own), subject)
            }
        };
        measure(
            &subject,
            &images,
            &args.workload,
            pace,
            args.max_connections,
        )
        .await
    })?;
    let answered = figures.totals.answers(StatusCode::OK) > 0;
    report::publish(&args.workload, &figures, args.output.as_deref())?;
    Ok(if answered {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests;
