//! Converts quantized weights to f32 weights.

use std::collections::{HashMap, HashSet};

use super::{
    PrepareError,
    initializer::{Constant, integers},
};
use crate::onnx::{GraphProto, NodeProto, TensorProto};

/// Replaces every DequantizeLinear of constants, and a constant Reshape behind it, by one f32 initializer.
///
/// The quantized constants remain until [`super::prune`] finds that nothing reads them.
pub fn fold_weights(graph: &mut GraphProto) -> Result<(), PrepareError> {
    let constants: HashMap<&str, &TensorProto> =
        graph.initializer.iter().map(|t| (t.name(), t)).collect();
    let mut folded: Vec<(String, Constant)> = Vec::new();
    let mut place: HashMap<&str, usize> = HashMap::new();
    let mut done: HashSet<usize> = HashSet::new();
    for (number, node) in graph.node.iter().enumerate() {
        if node.op_type() == "DequantizeLinear"
            && node
                .input
                .iter()
                .all(|i| constants.contains_key(i.as_str()))
        {
            let weights = dequantize_node(node, &constants)?;
            place.insert(output(node)?, folded.len());
            folded.push((output(node)?.to_owned(), weights));
            done.insert(number);
        }
    }
    for (number, node) in graph.node.iter().enumerate() {
        if let ("Reshape", [data, shape]) = (node.op_type(), node.input.as_slice())
            && let Some(&source) = place.get(data.as_str())
            && let Some(shape) = constants.get(shape.as_str())
        {
            let mut weights = folded[source].1.clone();
            weights.dims = reshaped(&weights, &integers(shape)?)
                .ok_or_else(|| refused(node, "its shape does not fit its data"))?;
            folded.push((output(node)?.to_owned(), weights));
            done.insert(number);
        }
    }
    graph
        .initializer
        .extend(folded.iter().map(|(name, weights)| weights.to_tensor(name)));
    let mut number = 0..;
    graph
        .node
        .retain(|_| number.next().is_none_or(|n| !done.contains(&n)));
    Ok(())
}

fn dequantize_node(
    node: &NodeProto,
    constants: &HashMap<&str, &TensorProto>,
) -> Result<Constant, PrepareError> {
    let read = |input: usize| -> Result<Option<Constant>, PrepareError> {
        node.input
            .get(input)
            .and_then(|name| constants.get(name.as_str()))
            .map(|tensor| Constant::read(tensor))
            .transpose()
    };
    let (Some(quantized), Some(scale)) = (read(0)?, read(1)?) else {
        return Err(refused(node, "it needs data and a scale"));
    };
    let attribute = |name: &str| node.attribute.iter().find(|a| a.name() == name);
    let rank = quantized.dims.len();
    let axis = match (attribute("axis").map_or(1, |a| a.i()), rank) {
        // A bias has only one axis, although the default is another axis.
        (_, 0 | 1) => Some(0),
        (axis, rank) if axis < 0 => usize::try_from(axis + rank as i64).ok(),
        (axis, _) => usize::try_from(axis).ok(),
    };
    let blocks = Blocks {
        axis: axis
            .filter(|&axis| axis < rank.max(1))
            .ok_or_else(|| refused(node, "its axis is not one of its data"))?,
        size: attribute("block_size")
            .and_then(|a| usize::try_from(a.i()).ok())
            .unwrap_or(0),
    };
    dequantize(&quantized, &scale, read(2)?.as_ref(), blocks)
        .ok_or_else(|| refused(node, "its scale does not fit its data"))
}

/// The number of neighboring elements that share one scale.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    /// The axis of the scales.
    axis: usize,
    /// Elements per scale along the axis; 0 if each index has its own.
    size: usize,
}

/// Returns `(q − zero) · scale`, with the scale and zero point broadcast as in ONNX's DequantizeLinear-21. Returns
/// `None` if they do not fit.
fn dequantize(
    quantized: &Constant,
    scale: &Constant,
    zero: Option<&Constant>,
    blocks: Blocks,
) -> Option<Constant> {
    if zero.is_some_and(|zero| zero.dims != scale.dims) {
        return None;
    }
    let steps = scale_steps(&quantized.dims, scale, blocks)?;
    let mut index = vec![0; quantized.dims.len()];
    let mut values = Vec::with_capacity(quantized.values.len());
    for q in &quantized.values {
        let at: usize = index
            .iter()
            .zip(&steps)
            .map(|(i, step)| i / step.shared * step.stride)
            .sum();
        let zero = zero.map_or(0.0, |zero| zero.values[at]);
        values.push((q - zero) * scale.values[at]);
        advance(&mut index, &quantized.dims);
    }
    Some(Constant {
        dims: quantized.dims.clone(),
        values,
    })
}

/// One axis of the data. The scale's flat index moves by `stride` after every `shared` elements of the axis.
struct Step {
    shared: usize,
    stride: usize,
}

fn scale_steps(dims: &[usize], scale: &Constant, blocks: Blocks) -> Option<Vec<Step>> {
    // One scale for all elements, or one for each index of the axis, expanded to the data's rank.
    let scale_dims = if scale.values.len() == 1 {
        vec![1; dims.len()]
    } else if scale.dims.len() == 1 && dims.len() > 1 {
        let mut spread = vec![1; dims.len()];
        spread[blocks.axis] = scale.dims[0];
        spread
    } else {
        scale.dims.clone()
    };
    if scale_dims.len() != dims.len() {
        return None;
    }
    let mut stride = 1;
    let mut steps: Vec<Step> = Vec::with_capacity(dims.len());
    for (axis, (&dim, &scales)) in dims.iter().zip(&scale_dims).enumerate().rev() {
        let shared = if scales == 1 {
            dim.max(1)
        } else if axis == blocks.axis && blocks.size > 0 {
            blocks.size
        } else {
            1
        };
        if scales.checked_mul(shared)? < dim {
            return None;
        }
        steps.push(Step { shared, stride });
        stride *= scales;
    }
    steps.reverse();
    Some(steps)
}

/// Moves a row-major index to the next element.
fn advance(index: &mut [usize], dims: &[usize]) {
    for (i, &dim) in index.iter_mut().zip(dims).rev() {
        *i += 1;
        if *i < dim {
            return;
        }
        *i = 0;
    }
}

/// Returns the dimensions after a Reshape: 0 keeps a dimension, −1 takes the rest.
fn reshaped(weights: &Constant, shape: &[i64]) -> Option<Vec<usize>> {
    let mut dims = Vec::with_capacity(shape.len());
    for (axis, &wanted) in shape.iter().enumerate() {
        dims.push(match wanted {
            0 => *weights.dims.get(axis)?,
            -1 => {
                let known = shape
                    .iter()
                    .enumerate()
                    .filter(|&(other, _)| other != axis)
                    .map(|(other, &d)| match d {
                        0 => weights.dims.get(other).copied(),
                        d => usize::try_from(d).ok(),
                    })
                    .try_fold(1usize, |product, d| product.checked_mul(d?))?;
                weights.values.len().checked_div(known)?
            }
            wanted => usize::try_from(wanted).ok()?,
        });
    }
    let product = dims
        .iter()
        .try_fold(1usize, |product, &d| product.checked_mul(d))?;
    (product == weights.values.len()).then_some(dims)
}

fn output(node: &NodeProto) -> Result<&str, PrepareError> {
    node.output
        .first()
        .map(String::as_str)
        .ok_or_else(|| refused(node, "it has no output"))
}

fn refused(node: &NodeProto, why: &str) -> PrepareError {
    PrepareError::Graph(format!("{} `{}`: {why}", node.op_type(), node.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(dims: &[usize], values: &[f32]) -> Constant {
        Constant {
            dims: dims.to_vec(),
            values: values.to_vec(),
        }
    }

    #[test]
    fn blocks_share_a_scale_and_the_last_may_be_short() {
        let data = constant(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let scale = constant(&[2, 2], &[1.0, 10.0, 100.0, 1000.0]);
        let zero = constant(&[2, 2], &[1.0, 0.0, 0.0, 2.0]);
        let blocks = Blocks { axis: 1, size: 2 };
        let folded = dequantize(&data, &scale, Some(&zero), blocks).unwrap();
        assert_eq!(folded.dims, [2, 3]);
        assert_eq!(folded.values, [0.0, 1.0, 30.0, 400.0, 500.0, 4000.0]);
    }

    #[test]
    fn one_scale_serves_all_and_a_row_of_them_serves_its_axis() {
        let data = constant(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let blocks = Blocks { axis: 0, size: 0 };
        let one = dequantize(&data, &constant(&[], &[0.5]), None, blocks).unwrap();
        assert_eq!(one.values, [0.5, 1.0, 1.5, 2.0]);
        let row = dequantize(&data, &constant(&[2], &[1.0, 10.0]), None, blocks).unwrap();
        assert_eq!(row.values, [1.0, 2.0, 30.0, 40.0]);
    }

    #[test]
    fn scales_that_do_not_cover_the_data_are_refused() {
        let data = constant(&[1, 5], &[0.0; 5]);
        let scale = constant(&[1, 2], &[1.0, 2.0]);
        let blocks = Blocks { axis: 1, size: 2 };
        assert_eq!(dequantize(&data, &scale, None, blocks), None);
    }

    #[test]
    fn a_reshape_keeps_infers_and_refuses() {
        let weights = constant(&[2, 6], &[0.0; 12]);
        assert_eq!(reshaped(&weights, &[0, -1, 3]), Some(vec![2, 2, 3]));
        assert_eq!(reshaped(&weights, &[4, 3]), Some(vec![4, 3]));
        assert_eq!(reshaped(&weights, &[5, -1]), None);
        assert_eq!(reshaped(&weights, &[-1, -1]), None);
    }
}
