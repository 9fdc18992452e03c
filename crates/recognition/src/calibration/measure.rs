//! Measures a table of error rates on faces whose people are known.
//!
//! Every face is compared with every other one. The intervals come from a bootstrap over people: pairs are not
//! independent, because each person takes part in many of them.

use facescan_pipeline::core::scan::cosine;

use super::OperatingPoint;

/// The rates of the rows. A row needs enough errors, so a small set has the first ones only.
const FARS: [f64; 11] = [
    0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6,
];

/// The errors that a row needs. With 30 errors the true rate is within 30 % of the measured one with a confidence of 90 %, if
/// pairs are independent (the rule of 30: Mansfield and Wayman, Best Practices in Testing and Reporting Performance of
/// Biometric Devices, 2002).
const MIN_ERRORS: u64 = 30;

/// The samples of the bootstrap.
const SAMPLES: usize = 1000;

/// The share of impostor pairs that are kept, those with the highest cosines. A sample of the bootstrap can need more of them
/// than the highest rate.
const KEPT: f64 = 0.25;

/// The bins of the histogram that finds the cosine above which pairs are kept.
const BINS: usize = 20_000;

/// The error rates of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The pairs of two faces of one person.
    pub genuine_pairs: u64,
    /// The pairs of faces of two people.
    pub impostor_pairs: u64,
    /// The rows of the table, from the highest FAR to the lowest. Empty if the set is too small.
    pub points: Vec<OperatingPoint>,
}

/// A vector of length 1, and the index of its person.
type LabeledVector<'a> = (&'a [f32], usize);

/// The cosine of two faces of different people.
struct Impostor {
    cosine: f32,
    people: [u32; 2],
}

/// The pairs of a set.
struct Pairs {
    /// The cosine of two faces of one person, and the person.
    genuine: Vec<(f32, usize)>,
    /// The pairs with the highest cosines, highest first.
    impostors: Vec<Impostor>,
    impostor_count: u64,
    /// The number of faces of each person.
    faces: Vec<usize>,
}

/// Compares all faces of `people`: the vectors of length 1 of each person. The same seed returns the same intervals.
pub fn measure(people: &[Vec<Vec<f32>>], seed: u64) -> Measurement {
    let pairs = Pairs::new(people);
    let fars = FARS
        .into_iter()
        .filter(|far| far * pairs.impostor_count as f64 >= MIN_ERRORS as f64);
    let mut points: Vec<OperatingPoint> = fars.filter_map(|far| pairs.point(far)).collect();
    pairs.add_intervals(&mut points, seed);
    Measurement {
        genuine_pairs: pairs.genuine.len() as u64,
        impostor_pairs: pairs.impostor_count,
        points,
    }
}

impl Pairs {
    fn new(people: &[Vec<Vec<f32>>]) -> Self {
        let vectors: Vec<LabeledVector<'_>> = people
            .iter()
            .enumerate()
            .flat_map(|(person, vectors)| vectors.iter().map(move |vector| (&vector[..], person)))
            .collect();
        let mut genuine = Vec::new();
        let mut histogram = vec![0u64; BINS + 1];
        each_pair(&vectors, |cosine, [first, second]| {
            if first == second {
                genuine.push((cosine, first));
            } else {
                histogram[bin(cosine)] += 1;
            }
        });
        let impostor_count: u64 = histogram.iter().sum();
        let lowest = lowest_kept(&histogram, impostor_count);
        let kept: u64 = histogram[lowest..].iter().sum();
        let mut impostors = Vec::with_capacity(usize::try_from(kept).unwrap_or_default());
        each_pair(&vectors, |cosine, [first, second]| {
            if first != second && bin(cosine) >= lowest {
                let people = [first as u32, second as u32];
                impostors.push(Impostor { cosine, people });
            }
        });
        impostors.sort_unstable_by(|a, b| b.cosine.total_cmp(&a.cosine));
        Self {
            genuine,
            impostors,
            impostor_count,
            faces: people.iter().map(Vec::len).collect(),
        }
    }

    /// Returns the point of a FAR. Its intervals are empty.
    fn point(&self, far: f64) -> Option<OperatingPoint> {
        let accepted = (far * self.impostor_count as f64) as usize;
        let threshold = self.impostors.get(accepted.checked_sub(1)?)?.cosine;
        let tar = self.tar(threshold, &vec![1.0; self.faces.len()]);
        Some(OperatingPoint {
            far,
            far_low: far,
            far_high: far,
            threshold,
            threshold_low: threshold,
            threshold_high: threshold,
            tar,
            tar_low: tar,
            tar_high: tar,
        })
    }

    /// Returns the share of genuine pairs that reach a threshold, if each person counts with a weight.
    fn tar(&self, threshold: f32, weights: &[f64]) -> f64 {
        let (mut reached, mut all) = (0.0, 0.0);
        for (cosine, person) in &self.genuine {
            all += weights[*person];
            if *cosine >= threshold {
                reached += weights[*person];
            }
        }
        if all > 0.0 { reached / all } else { 0.0 }
    }

    /// Sets the intervals of the points by drawing as many people as there are, with replacement, again and again.
    fn add_intervals(&self, points: &mut [OperatingPoint], seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut samples: Vec<Vec<Sample>> = vec![Vec::with_capacity(SAMPLES); points.len()];
        for _ in 0..SAMPLES {
            let mut weights = vec![0.0; self.faces.len()];
            for _ in 0..weights.len() {
                weights[random.usize(..self.faces.len())] += 1.0;
            }
            for (samples, sample) in samples.iter_mut().zip(self.sample(points, &weights)) {
                samples.push(sample);
            }
        }
        for (point, samples) in points.iter_mut().zip(&samples) {
            (point.far_low, point.far_high) = interval(samples.iter().map(|sample| sample.far));
            (point.tar_low, point.tar_high) = interval(samples.iter().map(|sample| sample.tar));
            let thresholds = samples.iter().map(|sample| f64::from(sample.threshold));
            let (low, high) = interval(thresholds);
            (point.threshold_low, point.threshold_high) = (low as f32, high as f32);
        }
    }

    /// Returns the rates of each point in a sample in which each person has a weight.
    fn sample(&self, points: &[OperatingPoint], weights: &[f64]) -> Vec<Sample> {
        let all = self.impostor_weight(weights);
        let mut samples: Vec<Sample> = points
            .iter()
            .map(|point| Sample {
                far: 0.0,
                threshold: 1.0,
                tar: self.tar(point.threshold, weights),
            })
            .collect();
        let mut accepted = 0.0;
        for Impostor { cosine, people } in &self.impostors {
            let weight = weights[people[0] as usize] * weights[people[1] as usize];
            if weight == 0.0 {
                continue;
            }
            accepted += weight;
            let rate = accepted / all;
            let is_done = |point: &OperatingPoint| rate > point.far && *cosine < point.threshold;
            if points.iter().all(is_done) {
                break;
            }
            for (point, sample) in points.iter().zip(&mut samples) {
                if *cosine >= point.threshold {
                    sample.far = rate;
                }
                if rate <= point.far {
                    sample.threshold = *cosine;
                }
            }
        }
        samples
    }

    /// Returns the sum of the weights of all impostor pairs.
    fn impostor_weight(&self, weights: &[f64]) -> f64 {
        let faces = self.faces.iter().zip(weights);
        let weighted = faces.map(|(&faces, weight)| faces as f64 * weight);
        let (sum, squares) = weighted.fold((0.0, 0.0), |(sum, squares), value| {
            (sum + value, squares + value * value)
        });
        (sum * sum - squares) / 2.0
    }
}

/// The rates of a point in one sample of the bootstrap.
#[derive(Clone, Copy)]
struct Sample {
    far: f64,
    threshold: f32,
    tar: f64,
}

/// Calls `each` with the cosine of every pair and its people.
fn each_pair(vectors: &[LabeledVector<'_>], mut each: impl FnMut(f32, [usize; 2])) {
    for (index, (vector, person)) in vectors.iter().enumerate() {
        for (other, other_person) in &vectors[index + 1..] {
            each(cosine(vector, other), [*person, *other_person]);
        }
    }
}

fn bin(cosine: f32) -> usize {
    let share = (cosine.clamp(-1.0, 1.0) + 1.0) / 2.0;
    (share * BINS as f32) as usize
}

/// Returns the lowest bin of the pairs that are kept.
fn lowest_kept(histogram: &[u64], all: u64) -> usize {
    let wanted = KEPT * all as f64;
    let mut kept = 0;
    for (bin, count) in histogram.iter().enumerate().rev() {
        kept += count;
        if kept as f64 >= wanted {
            return bin;
        }
    }
    0
}

/// Returns the interval that holds 95 % of the values.
fn interval(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (share * values.len().saturating_sub(1) as f64).round() as usize;
        values.get(index).copied().unwrap_or_default()
    };
    (at(0.025), at(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// People with four faces each, whose vectors are noisy copies of one direction.
    fn people(count: usize, noise: f32) -> Vec<Vec<Vec<f32>>> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut unit = |center: Option<&[f32]>| -> Vec<f32> {
            let value = |index: usize, random: &mut fastrand::Rng| {
                let noise_value = random.f32() - 0.5;
                center.map_or(noise_value, |center| center[index] + noise * noise_value)
            };
            let raw: Vec<f32> = (0..16).map(|index| value(index, &mut random)).collect();
            let norm = cosine(&raw, &raw).sqrt();
            raw.iter().map(|value| value / norm).collect()
        };
        (0..count)
            .map(|_| {
                let center = unit(None);
                (0..4).map(|_| unit(Some(&center))).collect()
            })
            .collect()
    }

    #[test]
    fn thresholds_accept_the_stated_share_of_impostors() {
        let people = people(60, 0.5);
        let measured = measure(&people, 1);
        assert_eq!(measured.genuine_pairs, 60 * 6);
        assert_eq!(measured.impostor_pairs, 240 * 239 / 2 - 360);
        // 28,320 pairs carry rates down to 0.01: 0.001 would be 28 errors.
        let fars: Vec<f64> = measured.points.iter().map(|point| point.far).collect();
        assert_eq!(fars, [0.1, 0.03, 0.01, 0.003]);
        for point in &measured.points {
            let mut accepted = 0;
            for (index, first) in people.iter().enumerate() {
                for second in &people[index + 1..] {
                    for a in first {
                        let reached = second.iter().filter(|b| cosine(a, b) >= point.threshold);
                        accepted += reached.count();
                    }
                }
            }
            let rate = accepted as f64 / measured.impostor_pairs as f64;
            assert!((rate - point.far).abs() < 1e-4, "{rate} of {point:?}");
            assert!(
                point.far_low < point.far && point.far < point.far_high,
                "{point:?}"
            );
            let threshold = point.threshold_low..=point.threshold_high;
            assert!(threshold.contains(&point.threshold), "{point:?}");
            assert!(
                point.tar_low <= point.tar && point.tar <= point.tar_high,
                "{point:?}"
            );
        }
        assert!(measured.points[0].tar > 0.9, "{:?}", measured.points[0]);
    }

    #[test]
    fn the_same_seed_returns_the_same_intervals() {
        let people = people(20, 0.5);
        assert_eq!(measure(&people, 3), measure(&people, 3));
        assert_ne!(measure(&people, 3), measure(&people, 4));
    }

    #[test]
    fn a_set_of_one_person_has_no_points() {
        let measured = measure(&people(1, 0.5), 1);
        assert_eq!((measured.genuine_pairs, measured.impostor_pairs), (6, 0));
        assert_eq!(measured.points, []);
        assert_eq!(measure(&[], 1).points, []);
    }
}
