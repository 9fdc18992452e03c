//! Measures what this server adds to decoding and inference with one client.

use std::time::{Duration, Instant};

use anyhow::Context;
use facescan::cli::bench::report::{Table, millis, or_dash};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::{runtime::Builder, task::spawn_blocking};

use super::{Bench, QUERY};
use crate::{
    load::{
        LoadFigures, Subject,
        connection::{Connection, Reusable},
        generator::{Pace, requests},
        target::Target,
    },
    math::{Durations, Percentiles},
    workload::Sequence,
};

/// The number of requests with timings.
const SAMPLES: usize = 100;

/// The latency of one client and its parts.
#[derive(Debug, Serialize)]
pub struct Single {
    /// The load of one client without timings.
    pub load: LoadFigures,
    /// The decoding time of the sampled requests, as the server reports it.
    pub decode_ms: Option<Percentiles>,
    /// The time for aligning faces in the sampled requests, as the server reports it.
    pub align_ms: Option<Percentiles>,
    /// The inference time of the sampled requests, as the server reports it.
    pub inference_ms: Option<Percentiles>,
    /// The rest of the latency of each sampled request.
    pub overhead_ms: Option<Percentiles>,
}

/// The part of an answer that this module reads.
#[derive(Deserialize)]
struct Answer {
    results: Vec<Scanned>,
}

#[derive(Deserialize)]
struct Scanned {
    timings_ms: Stages,
}

#[derive(Deserialize)]
struct Stages {
    decode: f64,
    #[serde(default)]
    detect: f64,
    #[serde(default)]
    align: f64,
    #[serde(default)]
    embed: f64,
}

impl Bench<'_> {
    /// Measures one client, then samples requests one by one.
    pub async fn single(&self) -> anyhow::Result<Single> {
        eprintln!("measuring one client");
        let (own, subject) = self.own_server().await?;
        let load = self.load(&subject, Pace::Clients(1)).await?;
        let query = format!("{QUERY}&timings=true");
        let target = Subject::own(&own, self.workload, &query)?.target;
        let requests = requests(&target, self.images)?;
        let sequence = self.workload.sequence(requests.len());
        // Sampling has its own thread, so no time is lost when the client moves between threads.
        let sampling = spawn_blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(sample(&target, &requests, &sequence))
        });
        let parts = sampling.await.context("the sampling thread failed")??;
        let [decode, align, inference, overhead] = &parts;
        Ok(Single {
            load,
            decode_ms: decode.percentiles(),
            align_ms: align.percentiles(),
            inference_ms: inference.percentiles(),
            overhead_ms: overhead.percentiles(),
        })
    }
}

/// Sends requests one by one. Returns the times of decoding, aligning and inference, and the rest of each latency.
async fn sample(
    target: &Target,
    requests: &[Reusable],
    sequence: &Sequence,
) -> anyhow::Result<[Durations; 4]> {
    let mut parts = [
        Durations::new()?,
        Durations::new()?,
        Durations::new()?,
        Durations::new()?,
    ];
    let mut connection = Connection::open(target).await?;
    for _ in 0..SAMPLES {
        let request = requests[sequence.take()].clone();
        let sent = Instant::now();
        let whole = connection.fetch(request).await?;
        let took = sent.elapsed();
        anyhow::ensure!(
            whole.status == StatusCode::OK,
            "a sampled request was answered with {}",
            whole.status
        );
        let answer: Answer =
            serde_json::from_slice(&whole.body).context("reading the timings of an answer")?;
        let stages = &answer
            .results
            .first()
            .context("the answer contains no result")?
            .timings_ms;
        let decode = from_millis(stages.decode);
        let align = from_millis(stages.align);
        let inference = from_millis(stages.detect + stages.embed);
        let [decodes, aligns, inferences, overheads] = &mut parts;
        decodes.add(decode);
        aligns.add(align);
        inferences.add(inference);
        overheads.add(took.saturating_sub(decode + align + inference));
    }
    Ok(parts)
}

/// Converts milliseconds. A negative or non-finite number counts as zero.
fn from_millis(millis: f64) -> Duration {
    Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default()
}

impl Single {
    /// Renders one row per part.
    pub fn table(&self) -> String {
        let mut table = Table::new(["one client", "p50", "p99"]);
        for (name, percentiles) in [
            ("total", self.load.totals.latency_ms),
            ("decoding, reported by the server", self.decode_ms),
            ("aligning, reported by the server", self.align_ms),
            ("inference, reported by the server", self.inference_ms),
            ("overhead: the rest of the same request", self.overhead_ms),
        ] {
            table.row(&[
                &name,
                &or_dash(percentiles.map(|percentiles| percentiles.p50), millis),
                &or_dash(percentiles.map(|percentiles| percentiles.p99), millis),
            ]);
        }
        table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_times_count_as_zero() {
        assert_eq!(from_millis(1.5), Duration::from_micros(1500));
        assert_eq!(from_millis(f64::NAN), Duration::ZERO);
    }
}
