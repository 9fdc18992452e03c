//! Replaces PRelu by cheaper operations.

use std::collections::HashMap;

use super::{PrepareError, initializer::Constant};
use crate::onnx::{GraphProto, NodeProto, TensorProto};

/// Replaces `PRelu(x, a)`, with one slope per channel, by `Relu(x)·(1 − a) + x·a`.
///
/// The two agree to 5e-7. ONNX Runtime leaves its blocked layout for PRelu, but not for these operations: SFace goes
/// from 34.9 ms to 17.3 ms on one thread.
pub fn split(graph: &mut GraphProto) -> Result<(), PrepareError> {
    let constants: HashMap<&str, &TensorProto> =
        graph.initializer.iter().map(|t| (t.name(), t)).collect();
    let mut slopes = HashMap::new();
    for node in graph.node.iter().filter(|n| n.op_type() == "PRelu") {
        if let [_, slope] = node.input.as_slice()
            && let Some(tensor) = constants.get(slope.as_str())
        {
            slopes.insert(slope.clone(), Constant::read(tensor)?.values);
        }
    }
    for node in std::mem::take(&mut graph.node) {
        match (
            node.op_type(),
            node.input.as_slice(),
            node.output.as_slice(),
        ) {
            ("PRelu", [x, slope], [y]) if slopes.contains_key(slope) => {
                let slope = &slopes[slope];
                let (above, below) = (format!("{y}_above"), format!("{y}_below"));
                let channels = |values: Vec<f32>| Constant {
                    dims: vec![values.len(), 1, 1],
                    values,
                };
                let rest = channels(slope.iter().map(|a| 1.0 - a).collect());
                let slope = channels(slope.clone());
                let weight = |part: &str| format!("{part}_weight");
                graph.initializer.push(rest.to_tensor(&weight(&above)));
                graph.initializer.push(slope.to_tensor(&weight(&below)));
                let relu = format!("{y}_relu");
                graph.node.extend([
                    NodeProto::new("Relu", &[x], &relu),
                    NodeProto::new("Mul", &[&relu, &weight(&above)], &above),
                    NodeProto::new("Mul", &[x, &weight(&below)], &below),
                    NodeProto::new("Add", &[&below, &above], y),
                ]);
            }
            _ => graph.node.push(node),
        }
    }
    Ok(())
}
