//! Renders the figures of a run.

use std::path::Path;

use facescan::cli::bench::report::{Render, Table, figure, millis, or_dash, percent};

use super::{LoadFigures, generator::Pace, process::Usage};
use crate::plots::Plots;

impl LoadFigures {
    fn add_counts(&self, table: &mut Table) {
        let totals = &self.totals;
        let counts = &totals.counts;
        match self.pace {
            Pace::Clients(clients) => table.row(&[&"clients", &clients]),
            Pace::Rate(rate) => table.row(&[&"requested rate per second", &figure(rate)]),
        }
        table.row(&[&"requests", &counts.requests]);
        for (status, count) in &counts.answers {
            table.row(&[&format!("answers with {status}"), &count]);
        }
        table.row(&[&"connection failures", &counts.failed]);
        if let Some(failure) = &counts.first_failure {
            table.row(&[&"first failure", failure]);
        }
        table.row(&[&"unanswered", &counts.unanswered]);
        table.row(&[&"200s per second", &figure(totals.throughput)]);
    }

    fn add_times(&self, table: &mut Table) {
        let totals = &self.totals;
        if let Some(latency) = &totals.latency_ms {
            table.row(&[&"p50", &millis(latency.p50)]);
            table.row(&[&"p90", &millis(latency.p90)]);
            table.row(&[&"p99", &millis(latency.p99)]);
            table.row(&[&"p99.9", &millis(latency.p99_9)]);
            table.row(&[&"max", &millis(latency.max)]);
        }
        if let Some(rejected) = &totals.rejected_ms {
            table.row(&[&"429s", &percent(totals.rejected_share())]);
            table.row(&[&"p99 of the 429s", &millis(rejected.p99)]);
        }
        if let Some(lag) = &totals.lag_ms {
            table.row(&[&"p99 of the generator's lag", &millis(lag.p99)]);
        }
    }

    fn add_resources(&self, table: &mut Table) {
        table.row(&[&"bytes sent", &self.totals.counts.bytes_sent]);
        table.row(&[&"bytes received", &self.totals.counts.bytes_received]);
        table.row(&[
            &"cores used by the generator",
            &or_dash(self.generator_cores, figure),
        ]);
        if let Some(server) = &self.server {
            let Usage {
                cpu_seconds,
                cores,
                rss,
            } = server;
            table.row(&[
                &"server's CPU time",
                &format!("{} s ({} cores)", figure(*cpu_seconds), figure(*cores)),
            ]);
            table.row(&[
                &"server's memory, first/peak/last",
                &format!("{:.0}/{:.0}/{:.0} MiB", rss.first, rss.peak, rss.last),
            ]);
        }
        for (operation, batches) in self.batches.iter().flatten() {
            let sizes: Vec<String> = batches
                .sizes
                .iter()
                .map(|size| match size.up_to {
                    Some(rows) => format!("≤{rows}: {}", size.batches),
                    None => format!("more: {}", size.batches),
                })
                .collect();
            table.row(&[
                &format!("rows per batch, {operation}"),
                &format!("{} ({})", figure(batches.mean_rows), sizes.join(", ")),
            ]);
        }
    }
}

impl Render for LoadFigures {
    fn markdown(&self) -> String {
        let mut table = Table::new(["", "value"]);
        self.add_counts(&mut table);
        self.add_times(&mut table);
        self.add_resources(&mut table);
        table.to_string()
    }

    fn draw(&self, folder: &Path) -> anyhow::Result<()> {
        let name = "server".to_owned();
        Plots {
            latency: self
                .totals
                .latency_ms
                .map(|latency| (name.clone(), latency))
                .into_iter()
                .collect(),
            throughput: vec![(name.clone(), self.totals.throughput)],
            memory: self
                .server
                .iter()
                .map(|server| (name.clone(), server.rss.curve.clone()))
                .collect(),
        }
        .draw(folder)
    }
}
