//! Converts quantized weights to f32 weights.

use std::collections::{HashMap, HashSet};

use super::{
    PrepareError,
    initializer::{Constant, integers},
};
use crate::onnx::{GraphProto, NodeProto, TensorProto};

/// Replaces every DequantizeLinear of constants, and a constant Reshape behind it, by one f32 initializer.
///
/// The shipped files come from one tool. It quantizes in blocks along the last axis, each with a scale and a zero point,
/// and writes every dimension of a Reshape. Anything else is refused. The quantized constants remain until
/// [`super::prune`] finds that nothing reads them.
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
            let weights = reshaped(&folded[source].1, &integers(shape)?)
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
    let [quantized, scale, zero] = node.input.as_slice() else {
        return Err(refused(node, "it needs data, a scale and a zero point"));
    };
    let read = |name: &String| Constant::read(constants[name.as_str()]);
    let (quantized, scale, zero) = (read(quantized)?, read(scale)?, read(zero)?);
    let attribute = |name: &str| {
        let found = node.attribute.iter().find(|a| a.name() == name);
        found.and_then(|a| usize::try_from(a.i()).ok())
    };
    let (Some(axis), Some(size)) = (attribute("axis"), attribute("block_size")) else {
        return Err(refused(node, "it needs an axis from 0 and a block size"));
    };
    if axis + 1 != quantized.dims.len() {
        return Err(refused(node, "its axis is not the last of its data"));
    }
    dequantize(&quantized, &scale, &zero, size)
        .ok_or_else(|| refused(node, "its scale does not fit its data"))
}

/// Returns `(q − zero) · scale`, where each block of `size` neighbors on the last axis has its own scale and zero point.
/// The last block of a line may be shorter. Returns `None` if they do not fit.
fn dequantize(
    quantized: &Constant,
    scale: &Constant,
    zero: &Constant,
    size: usize,
) -> Option<Constant> {
    let (&len, lines) = quantized.dims.split_last()?;
    let (&blocks, scale_lines) = scale.dims.split_last()?;
    let fits = size > 0 && blocks == len.div_ceil(size) && lines == scale_lines;
    if !fits || scale.dims != zero.dims {
        return None;
    }
    let values = quantized.values.iter().enumerate().map(|(at, q)| {
        let block = at / len * blocks + at % len / size;
        (q - zero.values[block]) * scale.values[block]
    });
    Some(Constant {
        values: values.collect(),
        dims: quantized.dims.clone(),
    })
}

/// Returns weights with another shape, or `None` if the shape does not name exactly their number of values.
fn reshaped(weights: &Constant, shape: &[i64]) -> Option<Constant> {
    let dims = shape.iter().map(|&dim| usize::try_from(dim).ok());
    let dims: Vec<usize> = dims.collect::<Option<_>>()?;
    let product = dims
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
    (product == weights.values.len()).then(|| Constant {
        dims,
        values: weights.values.clone(),
    })
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
        let folded = dequantize(&data, &scale, &zero, 2).unwrap();
        assert_eq!(folded.dims, [2, 3]);
        assert_eq!(folded.values, [0.0, 1.0, 30.0, 400.0, 500.0, 4000.0]);
    }

    #[test]
    fn scales_that_do_not_cover_the_data_are_refused() {
        let data = constant(&[1, 5], &[0.0; 5]);
        let [two, three] = [2, 3].map(|blocks| constant(&[1, blocks], &vec![1.0; blocks]));
        assert_eq!(dequantize(&data, &two, &two, 2), None);
        assert_eq!(dequantize(&data, &three, &two, 2), None);
        assert_eq!(dequantize(&data, &three, &three, 0), None);
        assert!(dequantize(&data, &three, &three, 2).is_some());
    }

    #[test]
    fn a_reshape_names_every_dimension() {
        let weights = constant(&[2, 6], &[0.0; 12]);
        assert_eq!(reshaped(&weights, &[4, 3]).unwrap().dims, [4, 3]);
        for shape in [&[5, 2][..], &[4, -1], &[]] {
            assert_eq!(reshaped(&weights, shape), None);
        }
    }
}
