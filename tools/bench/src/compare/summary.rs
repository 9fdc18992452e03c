//! The medians of all rounds.

use facescan::cli::bench::report::{Table, figure, millis, or_dash};
use serde::Serialize;

use super::rounds::Round;
use crate::{
    load::generator::Pace,
    math::{Percentiles, median, median_ratio},
    plots::Plots,
};

/// The name of this server in the report.
pub const OURS: &str = "facescan";

const FLOOR: &str = "floor";

/// The medians of one system.
#[derive(Debug, Serialize)]
pub struct System {
    /// The name.
    pub name: String,
    /// The number of clients of a server in the last round, or the number of threads of the floor.
    pub clients: Option<usize>,
    /// Images per second.
    pub throughput: f64,
    /// The medians of the percentiles in the rounds, in milliseconds.
    pub latency_ms: Option<Percentiles>,
    /// The number of busy cores, if the processes of the system are known.
    pub cores: Option<f64>,
    /// The throughput of this server divided by that of the system: the median of the ratios in the rounds.
    pub ours_by_it: Option<f64>,
    /// The p99 of the system divided by that of this server: the median of the ratios in the rounds.
    pub its_p99_by_ours: Option<f64>,
}

/// The result of one round for one system.
struct Found {
    clients: Option<usize>,
    throughput: f64,
    latency_ms: Option<Percentiles>,
    cores: Option<f64>,
}

/// Returns the medians of every system: the floor, this server, then the peers by name.
pub fn systems(rounds: &[Round]) -> Vec<System> {
    let Some(last) = rounds.last() else {
        return Vec::new();
    };
    [FLOOR, OURS]
        .into_iter()
        .chain(last.peers.keys().map(String::as_str))
        .map(|name| system(name, rounds))
        .collect()
}

fn found(round: &Round, name: &str) -> Option<Found> {
    let figures = match name {
        FLOOR => {
            return Some(Found {
                clients: Some(round.floor.threads),
                throughput: round.floor.throughput,
                latency_ms: round.floor.latency_ms,
                cores: None,
            });
        }
        OURS => &round.ours,
        peer => round.peers.get(peer)?,
    };
    Some(Found {
        clients: match figures.pace {
            Pace::Clients(clients) => Some(clients),
            Pace::Rate(_) => None,
        },
        throughput: figures.totals.throughput,
        latency_ms: figures.totals.latency_ms,
        cores: figures.server.as_ref().map(|server| server.cores),
    })
}

fn system(name: &str, rounds: &[Round]) -> System {
    let all: Vec<(&Round, Found)> = rounds
        .iter()
        .filter_map(|round| Some((round, found(round, name)?)))
        .collect();
    let p99 = |percentiles: &Option<Percentiles>| percentiles.map_or(f64::NAN, |p| p.p99);
    System {
        name: name.to_owned(),
        clients: all.last().and_then(|(_, found)| found.clients),
        throughput: median(all.iter().map(|(_, found)| found.throughput)).unwrap_or_default(),
        latency_ms: medians(all.iter().filter_map(|(_, found)| found.latency_ms)),
        cores: median(all.iter().filter_map(|(_, found)| found.cores)),
        ours_by_it: median_ratio(
            all.iter()
                .map(|(round, found)| (round.ours.totals.throughput, found.throughput)),
        ),
        its_p99_by_ours: median_ratio(
            all.iter()
                .map(|(round, found)| (p99(&found.latency_ms), p99(&round.ours.totals.latency_ms))),
        ),
    }
}

/// Returns the median of each percentile. The maximum is the maximum of all rounds.
fn medians(rounds: impl Iterator<Item = Percentiles>) -> Option<Percentiles> {
    let rounds: Vec<Percentiles> = rounds.collect();
    let of = |part: fn(&Percentiles) -> f64| median(rounds.iter().map(part));
    Some(Percentiles {
        count: rounds.iter().map(|round| round.count).sum(),
        p50: of(|round| round.p50)?,
        p90: of(|round| round.p90)?,
        p99: of(|round| round.p99)?,
        p99_9: of(|round| round.p99_9)?,
        max: rounds.iter().map(|round| round.max).fold(0.0, f64::max),
    })
}

/// Renders one row per system.
pub fn table(systems: &[System]) -> String {
    let mut table = Table::new([
        "system",
        "clients",
        "images/s",
        "p50",
        "p99",
        "cores",
        "facescan ÷ it",
        "its p99 ÷ facescan's",
    ]);
    for system in systems {
        let latency = |part: fn(Percentiles) -> f64| or_dash(system.latency_ms.map(part), millis);
        table.row(&[
            &system.name,
            &or_dash(system.clients.map(|clients| clients as f64), |clients| {
                format!("{clients:.0}")
            }),
            &figure(system.throughput),
            &latency(|percentiles| percentiles.p50),
            &latency(|percentiles| percentiles.p99),
            &or_dash(system.cores, figure),
            &or_dash(system.ours_by_it, figure),
            &or_dash(system.its_p99_by_ours, figure),
        ]);
    }
    table.to_string()
}

/// Returns the plots of the medians, and of this server's memory in the last round.
pub fn plots(systems: &[System], rounds: &[Round]) -> Plots {
    Plots {
        latency: systems
            .iter()
            .filter_map(|system| Some((system.name.clone(), system.latency_ms?)))
            .collect(),
        throughput: systems
            .iter()
            .map(|system| (system.name.clone(), system.throughput))
            .collect(),
        memory: rounds
            .last()
            .and_then(|round| round.ours.server.as_ref())
            .map(|server| (OURS.to_owned(), server.rss.curve.clone()))
            .into_iter()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles(p99: f64, max: f64) -> Percentiles {
        Percentiles {
            count: 10,
            p50: 1.0,
            p90: 2.0,
            p99,
            p99_9: p99,
            max,
        }
    }

    #[test]
    fn each_percentile_has_its_own_median_and_the_maximum_is_kept() {
        let rounds = [
            percentiles(5.0, 6.0),
            percentiles(50.0, 60.0),
            percentiles(4.0, 5.0),
        ];
        let found = medians(rounds.into_iter()).unwrap();
        assert_eq!((found.count, found.p99, found.max), (30, 5.0, 60.0));
        assert_eq!(medians([].into_iter()), None);
    }
}
