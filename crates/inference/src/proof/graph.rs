//! A small graph whose outputs are known without running it: y = relu(w · x + b) for each pixel, with integers that
//! every precision holds exactly.

use prost::Message;

use crate::{
    backend::{BackendError, Batch, Session},
    graphs::session::GraphModel,
    onnx::{
        AttributeProto, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
        TensorProto, TensorShapeProto, TensorType, TypeProto, ValueInfoProto, data_type,
    },
    tensor::Tensor,
};

/// Input channels, output channels and the side of the image.
const IN: usize = 4;
const OUT: usize = 8;
const SIDE: usize = 8;

const ROWS: usize = 2;

/// The schema's `AttributeProto.AttributeType` of a list of integers.
const INTS: i32 = 7;

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
    let conv = NodeProto {
        input: names(["x", "w", "b"]),
        output: names(["z"]),
        op_type: Some("Conv".to_owned()),
        attribute: vec![AttributeProto {
            name: Some("kernel_shape".to_owned()),
            ints: vec![1, 1],
            r#type: Some(INTS),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    };
    let relu = NodeProto {
        input: names(["z"]),
        output: names(["y"]),
        op_type: Some("Relu".to_owned()),
        ..NodeProto::default()
    };
    let weights = (0..OUT).flat_map(|output| (0..IN).map(move |input| weight(output, input)));
    let graph = GraphProto {
        node: vec![conv, relu],
        name: Some("proof".to_owned()),
        initializer: vec![
            constant("w", &[OUT, IN, 1, 1], weights.collect()),
            constant("b", &[OUT], (0..OUT).map(bias).collect()),
        ],
        input: vec![value("x", &[ROWS, IN, SIDE, SIDE])],
        output: vec![value("y", &[ROWS, OUT, SIDE, SIDE])],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto {
            domain: None,
            version: Some(17),
        }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    GraphModel {
        name: "proof",
        bytes: model.encode_to_vec(),
    }
}

/// Runs the graph and compares its outputs with the known ones.
pub(super) fn check(mut session: Box<dyn Session>) -> Result<(), BackendError> {
    let data = input();
    let outputs = session.run(Batch {
        row_shape: &[IN, SIDE, SIDE],
        data: &data,
        frees_memory: false,
    })?;
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
        Err(BackendError::Unavailable {
            detail: "it returns a wrong result for a small graph with known outputs".to_owned(),
        })
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

fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn constant(name: &str, dims: &[usize], data: Vec<f32>) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.iter().map(|&dim| dim as i64).collect(),
        data_type: Some(data_type::FLOAT),
        float_data: data,
        ..TensorProto::default()
    }
}

fn value(name: &str, dims: &[usize]) -> ValueInfoProto {
    let dims = dims.iter().map(|&dim| Dimension {
        dim_value: Some(dim as i64),
        ..Dimension::default()
    });
    let tensor = TensorType {
        elem_type: Some(data_type::FLOAT),
        shape: Some(TensorShapeProto {
            dim: dims.collect(),
        }),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            tensor_type: Some(tensor),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}
