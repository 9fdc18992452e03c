//! Makes a fixed batch and image size dynamic.

use super::{
    PrepareError,
    initializer::{integer_tensor, integers},
};
use crate::onnx::{Dimension, GraphProto, TensorShapeProto, ValueInfoProto};

/// The axes of the input to make dynamic, with their new names.
pub const BATCH: [(usize, &str); 1] = [(0, "N")];
/// The batch, the height and the width.
pub const BATCH_AND_SIZE: [(usize, &str); 3] = [(0, "N"), (2, "H"), (3, "W")];

/// Makes the given axes of the first input dynamic, and the axes of the outputs that depend on them. The recorded
/// shapes of inner values are then wrong, so they are removed; ONNX Runtime infers them.
pub fn free_dims(graph: &mut GraphProto, axes: &[(usize, &str)]) -> Result<(), PrepareError> {
    let input = graph
        .input
        .first_mut()
        .and_then(shape_mut)
        .ok_or_else(|| PrepareError::Graph("the first input has no shape".into()))?;
    for &(axis, name) in axes {
        let dim = input.dim.get_mut(axis).ok_or_else(|| {
            PrepareError::Graph(format!("the first input has no dimension {axis}"))
        })?;
        *dim = Dimension::dynamic(name);
    }
    let sized = axes.len() > 1;
    for output in &mut graph.output {
        let name = output.name().to_owned();
        let Some(shape) = shape_mut(output) else {
            continue;
        };
        let rank = shape.dim.len();
        for (axis, dim) in shape.dim.iter_mut().enumerate() {
            // [N, C, H, W] maps depend on both axes. [N, cells, values] lists depend on the size in their cells.
            let follows = axis == 0 || sized && (if rank == 4 { axis >= 2 } else { axis == 1 });
            if follows {
                *dim = Dimension::dynamic(&format!("{name}_{axis}"));
            }
        }
    }
    graph.value_info.clear();
    Ok(())
}

/// Makes each constant Reshape to `[1, …, −1, …]` keep its first dimension. With a batch of N, the 1 would merge the
/// batch into one row.
pub fn free_batch_in_reshapes(graph: &mut GraphProto) -> Result<(), PrepareError> {
    let constants = &mut graph.initializer;
    let reshapes = graph.node.iter_mut();
    for node in reshapes.filter(|node| node.op_type() == "Reshape") {
        let constant = node.input.get(1);
        let constant = constant.and_then(|name| constants.iter().find(|t| t.name() == name));
        let Some(shape) = constant.map(integers).transpose()? else {
            continue;
        };
        if let [1, rest @ ..] = shape.as_slice()
            && rest.contains(&-1)
        {
            let kept: Vec<i64> = std::iter::once(0).chain(rest.iter().copied()).collect();
            // Several nodes may share a constant, so each gets its own.
            let name = format!(
                "{}_batch",
                node.output.first().map_or("reshape", String::as_str)
            );
            constants.push(integer_tensor(&name, &kept));
            node.input[1] = name;
        }
    }
    Ok(())
}

fn shape_mut(value: &mut ValueInfoProto) -> Option<&mut TensorShapeProto> {
    value.r#type.as_mut()?.tensor_type.as_mut()?.shape.as_mut()
}
