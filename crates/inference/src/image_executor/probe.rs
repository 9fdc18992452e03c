//! Health probes of devices that run whole images.

use std::{sync::Arc, time::Duration};

use super::{GraphOpener, GraphSessions, ImageJob};
use crate::{
    device::supervisor::ProbeFn,
    health::{Failure, Fault},
    proof::Proof,
};
use facescan_clock::Clock;

/// Runs jobs with known results. Returns the lowest cosine between the results and the expected ones.
pub type HealthProbe = ProbeFn<GraphSessions>;

/// Returns a probe that runs each of `jobs`. The CPU computes the expected results now.
pub fn health_probe<J: ImageJob<Output: Sync>>(jobs: impl IntoIterator<Item = J>) -> HealthProbe {
    let jobs: Vec<(J, J::Output)> = jobs
        .into_iter()
        .map(|job| {
            let right = job.run_on_cpu();
            (job, right)
        })
        .collect();
    Arc::new(move |graphs| {
        let mut lowest: f64 = 1.0;
        for (job, right) in &jobs {
            let given = job.run_on_device(graphs)?;
            let cosine = job.compare(&given, right).map_err(|detail| Failure {
                fault: Fault::WrongAnswer,
                detail,
            })?;
            lowest = lowest.min(cosine);
        }
        Ok(lowest)
    })
}

/// Returns a probe that runs all of `probes`.
pub fn all_probes<const N: usize>(probes: [HealthProbe; N]) -> HealthProbe {
    Arc::new(move |graphs| {
        let mut lowest: f64 = 1.0;
        for probe in &probes {
            lowest = lowest.min(probe(graphs)?);
        }
        Ok(lowest)
    })
}

/// Opens graphs with `open` and runs a probe on them twice: the first run may compile the graphs.
///
/// # Errors
/// Returns an error if the device fails, or if its results differ from the expected ones.
pub fn prove(open: GraphOpener, probe: &HealthProbe, clock: &dyn Clock) -> Result<Proof, Failure> {
    let mut graphs = GraphSessions::new(open);
    let mut timed = || -> Result<(f64, Duration), Failure> {
        let started_at = clock.monotonic();
        let cosine = probe(&mut graphs)?;
        Ok((cosine, clock.monotonic().saturating_sub(started_at)))
    };
    let (cosine, first) = timed()?;
    let (_, second) = timed()?;
    Ok(Proof {
        cosine,
        nodes: graphs.assignment(),
        first_run_ms: first.as_secs_f64() * 1e3,
        row_ms: second.as_secs_f64() * 1e3,
    })
}
