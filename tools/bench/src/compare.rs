//! `facescan-bench compare`: measures the floor, this server and its peers in turn.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use facescan::cli::bench::{
    images::Image,
    report::{self, Render},
    run_to_end,
};
use serde::Serialize;

use crate::{
    Settings,
    load::{Subject, clients},
    workload::Workload,
};
use overload::Overload;
use rounds::{Peer, Round};
use single::Single;
use summary::System;

mod overload;
mod rounds;
mod single;
mod summary;

/// The query of requests to this server. It avoids the cost of a database.
const QUERY: &str = "store=false";

/// The systems and measurements of a comparison.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The number of rounds; each round measures everything once, in turn. 0 skips the rounds.
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    rounds: usize,
    /// The number of clients of this server.
    #[arg(long, default_value_t = 16, value_parser = clients)]
    clients: usize,
    /// Another server that is already running, as NAME=URL; can be given several times.
    #[arg(long, value_name = "NAME=URL", value_parser = peer)]
    peer: Vec<PeerArg>,
    /// The numbers of clients to try with a peer; the best result counts.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = clients)]
    peer_clients: Vec<usize>,
    /// Also measure this server below and far above its capacity.
    #[arg(long)]
    overload: bool,
    /// Also measure, with one client, what this server adds to decoding and inference.
    #[arg(long)]
    single: bool,
    /// The number of threads of the floor [default: one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    workload: Workload,
    /// Write report.json, report.md and plots to this folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct PeerArg {
    name: String,
    url: String,
}

fn peer(text: &str) -> Result<PeerArg, String> {
    match text.split_once('=') {
        Some((name, url)) if !name.is_empty() && !url.is_empty() => Ok(PeerArg {
            name: name.to_owned(),
            url: url.to_owned(),
        }),
        _ => Err("must be NAME=URL, such as other=http://127.0.0.1:9000/analyze".to_owned()),
    }
}

/// The result of a comparison.
#[derive(Debug, Serialize)]
struct Comparison {
    /// The medians, with the floor first.
    systems: Vec<System>,
    rounds: Vec<Round>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overload: Option<Overload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    single: Option<Single>,
}

/// Runs the comparison and prints the medians.
///
/// # Errors
/// Returns an error if an image, a model or a server is missing, or the report cannot be written.
pub fn run(settings: &Settings, args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let images = args.workload.load()?;
    let peers = args
        .peer
        .iter()
        .map(|peer| {
            Ok(Peer {
                name: peer.name.clone(),
                subject: Subject::running(&peer.url, &args.workload, "")
                    .with_context(|| format!("the peer {}", peer.name))?,
                clients: args.peer_clients.clone(),
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let bench = Bench {
        settings,
        workload: &args.workload,
        images: &images,
        clients: args.clients,
    };
    let comparison = run_to_end(bench.compare(args, &peers))?;
    report::publish(&args.workload, &comparison, args.output.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// The parts that every measurement of a comparison shares.
struct Bench<'a> {
    settings: &'a Settings,
    workload: &'a Workload,
    images: &'a Arc<[Image]>,
    clients: usize,
}

impl Bench<'_> {
    async fn compare(&self, args: &CompareArgs, peers: &[Peer]) -> anyhow::Result<Comparison> {
        let rounds = match NonZeroUsize::new(args.rounds) {
            Some(count) => self.rounds(count, args.threads, peers).await?,
            None => Vec::new(),
        };
        Ok(Comparison {
            systems: summary::systems(&rounds),
            rounds,
            overload: match args.overload {
                true => Some(self.overload().await?),
                false => None,
            },
            single: match args.single {
                true => Some(self.single().await?),
                false => None,
            },
        })
    }
}

impl Render for Comparison {
    fn markdown(&self) -> String {
        let parts = [
            (!self.systems.is_empty()).then(|| summary::table(&self.systems)),
            self.overload.as_ref().map(Overload::table),
            self.single.as_ref().map(Single::table),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("\n")
    }

    fn draw(&self, folder: &Path) -> anyhow::Result<()> {
        let mut plots = summary::plots(&self.systems, &self.rounds);
        if let Some(overload) = &self.overload {
            plots.memory.extend(overload.memory());
        }
        plots.draw(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_and_an_address() {
        let read = peer("other=http://localhost:9000/a?b=c").unwrap();
        assert_eq!(read.name, "other");
        assert_eq!(read.url, "http://localhost:9000/a?b=c");
        for text in ["http://localhost:9000", "=http://localhost", "other="] {
            assert!(peer(text).is_err(), "{text}");
        }
    }
}
