//! This server below and far above what it can take.

use facescan::cli::bench::report::{Table, figure, millis, or_dash, percent};
use serde::Serialize;

use super::Bench;
use crate::load::{LoadFigures, generator::Pace};

/// The part of the capacity that a server should bear without a long tail.
const BELOW: f64 = 0.8;

/// So many times the capacity.
const ABOVE: f64 = 10.0;

/// One server, measured three times.
#[derive(Debug, Serialize)]
pub struct Overload {
    /// As much as the clients get out of it.
    pub capacity: LoadFigures,
    /// An open loop at 0.8 of that.
    pub below: LoadFigures,
    /// An open loop at ten times that.
    pub above: LoadFigures,
}

impl Bench<'_> {
    /// Measures the capacity, then an open loop below and one far above it, all on one server.
    pub async fn overload(&self) -> anyhow::Result<Overload> {
        let (_own, subject) = self.own_server().await?;
        eprintln!("measuring the capacity");
        let capacity = self.load(&subject, Pace::Clients(self.clients)).await?;
        let rate = capacity.totals.throughput;
        anyhow::ensure!(
            rate > 0.0,
            "the server answered nothing within --seconds; measure for longer"
        );
        eprintln!(
            "measuring at {BELOW} and {ABOVE} times {} a second",
            figure(rate)
        );
        Ok(Overload {
            capacity,
            below: self.load(&subject, Pace::Rate(BELOW * rate)).await?,
            above: self.load(&subject, Pace::Rate(ABOVE * rate)).await?,
        })
    }
}

impl Overload {
    fn parts(&self) -> [(&'static str, &LoadFigures); 3] {
        [
            ("capacity", &self.capacity),
            ("0.8 × capacity", &self.below),
            ("10 × capacity", &self.above),
        ]
    }

    /// One row a load.
    pub fn table(&self) -> String {
        let mut table = Table::new([
            "load",
            "offered/s",
            "200s/s",
            "p99 of the 200s",
            "429s",
            "p99 of the 429s",
            "failed",
            "unanswered",
            "peak memory",
        ]);
        for (name, figures) in self.parts() {
            let totals = &figures.totals;
            table.row(&[
                &name,
                &figure(totals.offered),
                &figure(totals.throughput),
                &or_dash(totals.latency_ms.map(|latency| latency.p99), millis),
                &percent(totals.rejected_share()),
                &or_dash(totals.rejected_ms.map(|latency| latency.p99), millis),
                &totals.counts.failed,
                &totals.counts.unanswered,
                &or_dash(
                    figures.server.as_ref().map(|server| server.rss.peak),
                    |mib| format!("{mib:.0} MiB"),
                ),
            ]);
        }
        table.to_string()
    }

    /// The memory of each load.
    pub fn memory(&self) -> Vec<(String, Vec<f64>)> {
        self.parts()
            .into_iter()
            .filter_map(|(name, figures)| {
                Some((name.to_owned(), figures.server.as_ref()?.rss.curve.clone()))
            })
            .collect()
    }
}
