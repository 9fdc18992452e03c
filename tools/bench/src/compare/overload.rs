//! Measures this server below and far above its capacity.

use facescan::cli::bench::report::{Table, figure, millis, or_dash, percent};
use serde::Serialize;

use super::Bench;
use crate::load::{LoadFigures, generator::Pace};

/// The part of the capacity that a server should handle without a long tail.
const BELOW: f64 = 0.8;

/// The multiple of the capacity that overloads the server.
const ABOVE: f64 = 10.0;

/// Three measurements of one server.
#[derive(Debug, Serialize)]
pub struct Overload {
    /// The capacity: the load that the clients achieve.
    pub capacity: LoadFigures,
    /// An open loop at 0.8 times the capacity.
    pub below: LoadFigures,
    /// An open loop at ten times the capacity.
    pub above: LoadFigures,
}

impl Bench<'_> {
    /// Measures the capacity, then an open loop below it and one far above it, on the same server.
    pub async fn overload(&self) -> anyhow::Result<Overload> {
        let (_own, subject) = self.own_server().await?;
        eprintln!("measuring the capacity");
        let capacity = self.load(&subject, Pace::Clients(self.clients)).await?;
        let rate = capacity.totals.throughput;
        anyhow::ensure!(
            rate > 0.0,
            "the server answered nothing within --seconds; increase --seconds"
        );
        eprintln!(
            "measuring at {BELOW} and {ABOVE} times {} requests per second",
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

    /// Renders one row per load.
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

    /// Returns the memory curve of each load.
    pub fn memory(&self) -> Vec<(String, Vec<f64>)> {
        self.parts()
            .into_iter()
            .filter_map(|(name, figures)| {
                Some((name.to_owned(), figures.server.as_ref()?.rss.curve.clone()))
            })
            .collect()
    }
}
