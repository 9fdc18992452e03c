//! Runs batches and reads the figures.

use std::{collections::BTreeMap, time::Instant};

use anyhow::Context;
use facescan_telemetry::metrics::resident_memory;

use super::{Session, millis};
use crate::{
    cli::bench::devices::{
        batch::Work,
        figures::{Cell, Failed, Memory, Span, Times, Toggle},
        material::{Item, Material},
    },
    http::error::entry_in_full,
};
use facescan_inference::{device::OperationReport, device_task::DeviceTask};

const MIB: f64 = (1u64 << 20) as f64;

impl Session<'_> {
    /// Measures an operation with some material.
    ///
    /// # Errors
    /// Returns an error if the options of the settings are not valid. A failure within a batch is a result and not an
    /// error.
    pub async fn measure(
        &self,
        operation: DeviceTask,
        material: &Material,
    ) -> anyhow::Result<Cell> {
        let work = Work::new(&self.app, operation)?;
        let items = work.items(material);
        let mut batches = Batches {
            session: self,
            work: &work,
            // Each batch continues where the last one ended, so that all items occur equally often.
            items: items.iter().cycle(),
            errors: BTreeMap::new(),
        };
        let before = self.report(operation);
        let mut warm_up = Vec::new();
        for _ in 0..self.args.warm_up.get() {
            warm_up.push(batches.time().await);
        }
        let failed_in_warm_up = batches.failed();
        let mut memory = Memory::default();
        let active = self.report(operation).map(|report| report.state.active);
        self.sample(&mut memory, active.as_deref());
        let mut times_ms = Vec::new();
        for _ in 0..self.args.iterations.get() {
            times_ms.push(batches.time().await);
            self.sample(&mut memory, active.as_deref());
        }
        let report = self
            .report(operation)
            .context("the operation has no device state")?;
        let times = Times::from_times(times_ms);
        let (timed, batch_size) = (times.times_ms.len(), self.args.batch_size.get());
        let (failed, run) = (batches.failed(), (timed + warm_up.len()) * batch_size);
        let succeeded = (timed * batch_size - (failed - failed_in_warm_up)) as f64;
        Ok(Cell {
            reason: self.reason(&report),
            cpu_provider: report.cpu_provider.clone(),
            distinct: items.len().min(run),
            batch_size,
            mean_throughput: succeeded / times.seconds().max(f64::MIN_POSITIVE),
            success_rate: 1.0 - failed as f64 / run as f64,
            errors: batches.errors,
            first_run_ms: warm_up.first().copied().unwrap_or_default(),
            warm_up_ms: warm_up.iter().sum(),
            device_rows: rows(&report) - before.as_ref().map_or(0, rows),
            fallback_rows: fallbacks_since(&report, before.as_ref()),
            requested: report.state.requested,
            active: report.state.active,
            times,
            memory,
        })
    }

    /// Returns the reason why an operation whose toggle is on runs on the CPU.
    fn reason(&self, report: &OperationReport) -> Option<String> {
        let is_silent = self.toggle == Toggle::On && report.state.requested == "cpu";
        report
            .state
            .reason
            .clone()
            .or_else(|| is_silent.then(|| "the settings name no device except the CPU".to_owned()))
    }

    /// Reads the memory. This happens between batches, so it adds nothing to their times.
    fn sample(&self, memory: &mut Memory, active: Option<&str>) {
        let mib = |bytes: u64| bytes as f64 / MIB;
        Span::extend(&mut memory.process_mib, resident_memory().map(mib));
        let Some(active) = active.filter(|active| *active != "cpu") else {
            return;
        };
        let devices = self.devices().devices;
        let device = devices.into_iter().find(|device| device.id == active);
        let used = device.and_then(|device| device.memory_used);
        Span::extend(&mut memory.device_mib, used.map(mib));
    }
}

/// The batches of one measurement.
struct Batches<'a, I> {
    session: &'a Session<'a>,
    work: &'a Work,
    items: I,
    /// The failures of all batches by error code.
    errors: BTreeMap<&'static str, Failed>,
}

impl<'a, I: Iterator<Item = &'a Item>> Batches<'a, I> {
    /// Runs one batch and returns its duration in milliseconds.
    async fn time(&mut self) -> f64 {
        let size = self.session.args.batch_size.get();
        let items: Vec<&Item> = self.items.by_ref().take(size).collect();
        let begun = Instant::now();
        let outcomes = self.work.run(&self.session.app, items).await;
        let took = millis(begun.elapsed());
        for error in outcomes.into_iter().filter_map(Result::err) {
            let error = entry_in_full(error);
            let of_a_kind = self.errors.entry(error.code);
            let failed = of_a_kind.or_insert_with(|| Failed {
                count: 0,
                first: error.detail,
            });
            failed.count += 1;
        }
        took
    }

    fn failed(&self) -> usize {
        self.errors.values().map(|failed| failed.count).sum()
    }
}

fn rows(report: &OperationReport) -> u64 {
    report.health.as_ref().map_or(0, |health| health.rows)
}

/// Returns the fallbacks since `before`.
fn fallbacks_since(
    now: &OperationReport,
    before: Option<&OperationReport>,
) -> BTreeMap<&'static str, u64> {
    let counts = |report: &OperationReport| {
        let health = report.health.as_ref();
        health
            .map(|health| health.fallbacks.clone())
            .unwrap_or_default()
    };
    let known = before.map(counts).unwrap_or_default();
    counts(now)
        .into_iter()
        .map(|(reason, rows)| (reason, rows - known.get(reason).unwrap_or(&0)))
        .filter(|(_, rows)| *rows > 0)
        .collect()
}
