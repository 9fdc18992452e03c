//! Reads the batch sizes from a server's metrics.

use std::collections::BTreeMap;

use serde::Serialize;

/// The histogram of the rows in each batch, with the label `operation`.
const METRIC: &str = "facescan_batch_rows";

/// One sample line of the Prometheus text format.
#[derive(Debug, PartialEq)]
struct Sample<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, String>,
    value: f64,
}

/// The counters of [`METRIC`], by operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters(BTreeMap<String, Counter>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Counter {
    /// The cumulative buckets, sorted by bound: the upper bound, and the number of batches up to it.
    cumulative: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

/// The batches of one operation between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Batches {
    /// The number of batches.
    pub batches: f64,
    /// The number of rows in all batches.
    pub rows: f64,
    /// The mean number of rows per batch.
    pub mean_rows: f64,
    /// The number of batches of each size.
    pub sizes: Vec<Size>,
}

/// One bucket of the histogram.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Size {
    /// The upper bound of the rows in these batches. The lower bound is that of the bucket before. `None` means no
    /// upper bound.
    pub up_to: Option<f64>,
    /// The number of batches.
    pub batches: f64,
}

impl Counters {
    /// Reads the text of `GET /metrics`. Returns `None` if it has no batch sizes. Unknown lines are skipped.
    pub fn read(text: &str) -> Option<Self> {
        let mut counters = Self::default();
        for sample in text.lines().filter_map(parse_line) {
            let Some(part) = sample.name.strip_prefix(METRIC) else {
                continue;
            };
            let operation = sample.labels.get("operation").cloned().unwrap_or_default();
            let put = |set: &dyn Fn(&mut Counter)| set(counters.0.entry(operation).or_default());
            match part {
                "_sum" => put(&|counter| counter.sum += sample.value),
                "_count" => put(&|counter| counter.count += sample.value),
                "_bucket" => {
                    if let Some(bound) = sample.labels.get("le").and_then(|le| number(le)) {
                        put(&|counter| counter.cumulative.push((bound, sample.value)));
                    }
                }
                _ => {}
            }
        }
        for counter in counters.0.values_mut() {
            counter.cumulative.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        (!counters.0.is_empty()).then_some(counters)
    }

    /// Returns the batches since `before`, by operation. Operations without batches are left out.
    pub fn since(&self, before: &Self) -> BTreeMap<String, Batches> {
        self.0
            .iter()
            .filter_map(|(operation, after)| {
                let none = Counter::default();
                let before = before.0.get(operation).unwrap_or(&none);
                Some((operation.clone(), after.since(before)?))
            })
            .collect()
    }
}

impl Counter {
    fn since(&self, before: &Self) -> Option<Batches> {
        let batches = self.count - before.count;
        if batches <= 0.0 {
            return None;
        }
        let mut below = 0.0;
        let sizes = self
            .cumulative
            .iter()
            .map(|(bound, count)| {
                let earlier = before.cumulative.iter().find(|(other, _)| other == bound);
                let upto = count - earlier.map_or(0.0, |(_, count)| *count);
                let size = Size {
                    up_to: bound.is_finite().then_some(*bound),
                    batches: upto - below,
                };
                below = upto;
                size
            })
            .filter(|size| size.batches > 0.0)
            .collect();
        let rows = self.sum - before.sum;
        Some(Batches {
            batches,
            rows,
            mean_rows: rows / batches,
            sizes,
        })
    }
}

/// Parses `name{label="value",…} value [timestamp]`. Returns `None` for comments and other lines.
fn parse_line(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    Some(Sample {
        name,
        labels,
        value: number(rest.split_whitespace().next()?)?,
    })
}

/// Parses the labels up to the closing brace. Returns the labels and the rest of the line.
fn parse_labels(mut rest: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, quoted) = rest.split_once('=')?;
        let (value, behind) = parse_quoted(quoted.trim_start())?;
        labels.insert(name.trim(), value);
        rest = behind;
    }
}

fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.strip_prefix('"')?.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => match chars.next()? {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

/// Parses a number. Rust accepts `+Inf` and `NaN` as the format writes them.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests;
