//! Rounds. Each round measures every server once, one directly after the other.

use std::{collections::BTreeMap, num::NonZeroUsize};

use anyhow::Context;
use http::StatusCode;
use serde::Serialize;

use super::{Bench, QUERY};
use crate::{
    floor::{Floor, FloorFigures},
    load::{LoadFigures, MAX_CONNECTIONS, Subject, generator::Pace, measure},
    own_server::OwnServer,
};

/// Another server, and the numbers of clients to try.
pub struct Peer {
    /// The name in the report.
    pub name: String,
    /// The server to measure.
    pub subject: Subject,
    /// The numbers of clients to try.
    pub clients: Vec<usize>,
}

/// The result of a round.
#[derive(Debug, Serialize)]
pub struct Round {
    /// The models alone.
    pub floor: FloorFigures,
    /// This server.
    pub ours: LoadFigures,
    /// Each peer by its name, with its best number of clients.
    pub peers: BTreeMap<String, LoadFigures>,
}

impl Bench<'_> {
    /// Runs the rounds. Each round measures everything once.
    pub async fn rounds(
        &self,
        count: NonZeroUsize,
        threads: Option<NonZeroUsize>,
        peers: &[Peer],
    ) -> anyhow::Result<Vec<Round>> {
        let config = &self.settings.config;
        let mut floor = Floor::prepare(config, self.workload, self.images, threads).await?;
        let mut rounds = Vec::new();
        for number in 1..=count.get() {
            eprintln!("round {number} of {count}");
            let floor = floor.measure(self.workload).await?;
            let (ours, peers) = self.servers(peers).await?;
            rounds.push(Round { floor, ours, peers });
        }
        Ok(rounds)
    }

    /// Measures this server, then the peers.
    async fn servers(
        &self,
        peers: &[Peer],
    ) -> anyhow::Result<(LoadFigures, BTreeMap<String, LoadFigures>)> {
        let ours = {
            let (_own, subject) = self.own_server().await?;
            self.load(&subject, Pace::Clients(self.clients)).await?
        };
        expect_answers("this server", &ours)?;
        let mut best = BTreeMap::new();
        for peer in peers {
            let figures = self.best_of(peer).await?;
            best.insert(peer.name.clone(), figures);
        }
        Ok((ours, best))
    }

    /// Starts a server for the measurement. Dropping the first of the two values stops it.
    pub async fn own_server(&self) -> anyhow::Result<(OwnServer, Subject)> {
        let own = OwnServer::start(self.settings).await?;
        let subject = Subject::own(&own, self.workload, QUERY)?;
        Ok((own, subject))
    }

    /// Measures a server under load for the time of the workload.
    pub async fn load(&self, subject: &Subject, pace: Pace) -> anyhow::Result<LoadFigures> {
        measure(subject, self.images, self.workload, pace, MAX_CONNECTIONS).await
    }

    async fn best_of(&self, peer: &Peer) -> anyhow::Result<LoadFigures> {
        let mut best: Option<LoadFigures> = None;
        for clients in &peer.clients {
            let figures = self.load(&peer.subject, Pace::Clients(*clients)).await?;
            let throughput = figures.totals.throughput;
            if best
                .as_ref()
                .is_none_or(|best| best.totals.throughput < throughput)
            {
                best = Some(figures);
            }
        }
        let best = best.context("--peer-clients must contain a number")?;
        expect_answers(&peer.name, &best)?;
        Ok(best)
    }
}

/// Returns an error if no request succeeded. The error contains the answers, because a throughput of zero would hide
/// the cause.
fn expect_answers(name: &str, figures: &LoadFigures) -> anyhow::Result<()> {
    let counts = &figures.totals.counts;
    anyhow::ensure!(
        figures.totals.answers(StatusCode::OK) > 0,
        "{name} answered no image with 200: {:?}, {}; check its address and the images",
        counts.answers,
        counts
            .first_failure
            .as_deref()
            .unwrap_or("no connection failed")
    );
    Ok(())
}
