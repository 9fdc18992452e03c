//! A small graph whose outputs are known without running it: y = relu(w · x + b) for each pixel, with integers that
//! every precision holds exactly.

use crate::{
    backend::{BackendError, Batch, Session},
    graphs::{
        builder::{Builder, Dim, Kind},
        session::GraphModel,
    },
    tensor::Tensor,
};

/// Input channels, output channels and the side of the image.
const IN: usize = 4;
const OUT: usize = 8;
const SIDE: usize = 8;

const ROWS: usize = 2;

fn weight(output: usize, input: usize) -> f32 {
    ((output * 3 + input * 5) % 7) as f32 - 3.0
}

fn bias(output: usize) -> f32 {
    output as f32 - 2.0
}

fn input() -> Vec<f32> {
    (0..ROWS * IN * SIDE * SIDE)
        .map(|i| (i * 7 % 11) as f32 - 4.0)
        .collect()
}

/// Returns the graph.
pub(super) fn model() -> GraphModel {
    let dims = |sizes: [usize; 4]| sizes.map(|size| size as i64);
    let weights = (0..OUT).flat_map(|output| (0..IN).map(move |input| weight(output, input)));
    let (weights, bias): (Vec<f32>, Vec<f32>) = (weights.collect(), (0..OUT).map(bias).collect());
    Builder::write("proof", |b| {
        let x = b.input("x", Kind::F32, &dims([ROWS, IN, SIDE, SIDE]).map(Dim::Is));
        let weights = b.floats(&dims([OUT, IN, 1, 1]), &weights);
        let bias = b.floats(&[OUT as i64], &bias);
        let y = x.pointwise_conv(&weights, &bias).relu();
        let shape = dims([ROWS, OUT, SIDE, SIDE]).map(Dim::Is);
        b.output("y", &y, Kind::F32, &shape);
    })
}

/// Runs the graph and compares its outputs with the known ones.
pub(super) fn check(mut session: Box<dyn Session>) -> Result<(), BackendError> {
    let data = input();
    let outputs = session.run(Batch::new(&[IN, SIDE, SIDE], &data))?;
    let given = outputs.first().map(|output| output.data.as_slice());
    let right = answer(&data);
    let is_right = given.is_some_and(|given| {
        given.len() == right.len()
            && given
                .iter()
                .zip(&right)
                .all(|(given, right)| (given - right).abs() <= 1e-3)
    });
    if is_right {
        Ok(())
    } else {
        Err(BackendError::unavailable(
            "it returns a wrong result for a small graph with known outputs",
        ))
    }
}

/// Returns the graph's outputs, for a backend that cannot run it.
pub(crate) fn expected_outputs(batch: Batch<'_>) -> Vec<Tensor> {
    vec![Tensor {
        name: "y".to_owned(),
        shape: vec![batch.rows(), OUT, SIDE, SIDE],
        data: answer(batch.data),
    }]
}

fn answer(input: &[f32]) -> Vec<f32> {
    let area = SIDE * SIDE;
    let mut answer = Vec::with_capacity(ROWS * OUT * area);
    for row in input.chunks(IN * area) {
        for output in 0..OUT {
            for pixel in 0..area {
                let sum: f32 = (0..IN)
                    .map(|channel| weight(output, channel) * row[channel * area + pixel])
                    .sum();
                answer.push((sum + bias(output)).max(0.0));
            }
        }
    }
    answer
}
