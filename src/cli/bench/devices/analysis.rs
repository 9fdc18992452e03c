//! The conclusions from the figures: the gains of each toggle, and a recommendation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    figures::{Cell, Toggle},
    material::Size,
};
use crate::cli::bench::report::{figure, math::ratio};
use facescan_inference::device_task::DeviceTask;

/// The smallest gain in percent of the time that makes a device worthwhile.
const WORTH_IT: f64 = 10.0;

/// The conclusions from the figures.
#[derive(Debug, Default, Serialize)]
pub struct Analysis {
    /// The gains of each toggle, by operation and size.
    pub performance_gains: BTreeMap<DeviceTask, BTreeMap<Size, Gains>>,
    pub recommendations: BTreeMap<DeviceTask, Recommendation>,
}

/// The gains of a toggle. Both are absent if only one side was measured or both ran on the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gains {
    /// The reduction of a batch's mean time in percent of the time without the device. It is negative if the time
    /// increased.
    pub time_improvement_percent: Option<f64>,
    /// The increase of the images, or faces, per second in percent of the throughput without the device.
    pub throughput_improvement_percent: Option<f64>,
}

/// The recommendation for the toggle of an operation on this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The variable that sets the toggle.
    pub setting: String,
    /// The advice. It is absent if only one side was measured.
    pub toggle: Option<Advice>,
    /// The size that the advice is based on: medium, or else the middle one of the measured sizes.
    pub judged_at: Size,
    pub reason: String,
}

/// Whether to switch a toggle on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Advice {
    On,
    Off,
}

/// The figures of one operation by size and toggle.
type Sizes = BTreeMap<Size, BTreeMap<Toggle, Cell>>;

pub fn analyze(results: &BTreeMap<DeviceTask, Sizes>) -> Analysis {
    let mut analysis = Analysis::default();
    for (&operation, sizes) in results {
        let gains = sizes.iter().map(|(&size, cells)| (size, gains(cells)));
        analysis
            .performance_gains
            .insert(operation, gains.collect());
        if let Some(judged_at) = middle(sizes) {
            let (toggle, reason) = advise(sizes, judged_at);
            let recommendation = Recommendation {
                setting: format!("{}_GPU", operation.name().to_uppercase()),
                toggle,
                judged_at,
                reason,
            };
            analysis.recommendations.insert(operation, recommendation);
        }
    }
    analysis
}

fn gains(cells: &BTreeMap<Toggle, Cell>) -> Gains {
    let (Some(off), Some(on)) = (cells.get(&Toggle::Off), cells.get(&Toggle::On)) else {
        return Gains::default();
    };
    if !on.is_on_device() {
        return Gains::default();
    }
    let part = |of, to| ratio(of, to).map(|ratio| ratio * 100.0);
    Gains {
        time_improvement_percent: part(on.times.mean_time_ms, off.times.mean_time_ms)
            .map(|percent| 100.0 - percent),
        throughput_improvement_percent: part(on.mean_throughput, off.mean_throughput)
            .map(|percent| percent - 100.0),
    }
}

/// Returns medium if it was measured, or else the size in the middle.
fn middle(sizes: &Sizes) -> Option<Size> {
    let of_all = sizes.keys().nth(sizes.len().saturating_sub(1) / 2);
    let medium = sizes.keys().find(|size| **size == Size::Medium);
    medium.or(of_all).copied()
}

fn advise(sizes: &Sizes, judged_at: Size) -> (Option<Advice>, String) {
    let cells = sizes.get(&judged_at);
    let on = cells.filter(|cells| cells.contains_key(&Toggle::Off));
    let Some(on) = on.and_then(|cells| cells.get(&Toggle::On)) else {
        return (
            None,
            "only one side was measured: run it without --gpu and --no-gpu".to_owned(),
        );
    };
    let off = |reason: String| (Some(Advice::Off), reason);
    if !on.is_on_device() {
        let reason = on.reason.as_deref().unwrap_or("no reason is known");
        return off(format!("it still runs on the CPU: {reason}"));
    }
    let blemish = sizes.iter().find_map(|(size, cells)| {
        cells.iter().find_map(|(toggle, cell)| {
            blemish(cell).map(|what| format!("{what} ({}, {})", size.name(), toggle.name()))
        })
    });
    if let Some(blemish) = blemish {
        return off(blemish);
    }
    let gained = cells
        .map(gains)
        .and_then(|gains| gains.time_improvement_percent);
    let device = &on.active;
    let size = judged_at.name();
    match gained {
        Some(percent) if percent > WORTH_IT => (
            Some(Advice::On),
            format!(
                "on {device} a batch takes {} % less time ({size})",
                figure(percent)
            ),
        ),
        Some(percent) if percent < 0.0 => off(format!(
            "on {device} a batch takes {} % more time ({size})",
            figure(-percent)
        )),
        Some(percent) => off(format!(
            "on {device} a batch takes {} % less time ({size}), which is not more than {WORTH_IT} %",
            figure(percent)
        )),
        None => off("the times are not comparable".to_owned()),
    }
}

/// Returns the first failure or fallback in a cell.
fn blemish(cell: &Cell) -> Option<String> {
    if let Some((code, failed)) = cell.errors.first_key_value() {
        return Some(format!(
            "{} failed with {code}: {}",
            failed.count, failed.first
        ));
    }
    let (reason, rows) = cell.fallback_rows.first_key_value()?;
    Some(format!("{rows} rows fell back to the CPU: {reason}"))
}

#[cfg(test)]
mod tests;
