//! Small ONNX files, written field by field.

use std::io::Result;

use super::Folder;

/// Data types of tensors.
const FLOAT: u64 = 1;
const INT8: u64 = 3;
const INT64: u64 = 7;

pub fn write(folder: &Folder) -> Result<()> {
    let write = |name: &str, content: Vec<u8>| folder.write("prepare", name, content);
    write("quantised.onnx", model(&quantised_graph()))?;
    write("no-graph.onnx", number(1, 6))?;
    write("empty-graph.onnx", model(&[]))?;
    // A constant that states 2^62 values.
    let huge = [
        number(1, 1 << 31),
        number(1, 1 << 31),
        number(2, FLOAT),
        message(8, b"q"),
    ]
    .concat();
    let graph = [
        node("DequantizeLinear", &["q", "q"], "w", &[]),
        message(5, &huge),
    ]
    .concat();
    write("huge-constant.onnx", model(&graph))?;
    let inner = message(5, &[message(1, b"then"), message(6, &[])].concat());
    write(
        "inner-graph.onnx",
        model(&node("If", &["x"], "y", &[inner])),
    )?;
    // Graphs in attributes of nodes in graphs.
    let mut deep = Vec::new();
    for _ in 0..40 {
        deep = message(1, &message(5, &message(6, &deep)));
    }
    write("deep.onnx", model(&deep))
}

/// A graph with what each recipe looks for: quantised weights, Reshapes and a PRelu.
fn quantised_graph() -> Vec<u8> {
    let attribute =
        |name: &str, value| message(5, &[message(1, name.as_bytes()), number(3, value)].concat());
    let axes = [attribute("axis", 1), attribute("block_size", 2)];
    let integers = |values: &[i64]| {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let floats = |values: &[f32]| {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    [
        node("DequantizeLinear", &["q", "s", "z"], "w0", &axes),
        node("Reshape", &["w0", "w_shape"], "w", &[]),
        node("Mul", &["x", "w"], "m", &[]),
        node("PRelu", &["m", "slope"], "p", &[]),
        node("Reshape", &["p", "out_shape"], "y", &[]),
        tensor("q", INT8, &[1, 4], vec![1, 2, 0xFF, 0x80]),
        tensor("s", FLOAT, &[1, 2], floats(&[0.5, 2.0])),
        tensor("z", INT8, &[1, 2], vec![0, 1]),
        tensor("w_shape", INT64, &[2], integers(&[2, 2])),
        tensor("slope", FLOAT, &[1, 1, 1], floats(&[0.25])),
        tensor("out_shape", INT64, &[3], integers(&[1, -1, 2])),
        value(11, "x", &[1, 3, 2, 2]),
        value(11, "slope", &[1, 1, 1]),
        value(12, "y", &[1, 6, 2]),
        value(13, "m", &[1, 3, 2, 2]),
    ]
    .concat()
}

fn model(graph: &[u8]) -> Vec<u8> {
    [number(1, 6), message(2, b"seeds"), message(7, graph)].concat()
}

fn node(operation: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut node: Vec<u8> = inputs
        .iter()
        .flat_map(|name| message(1, name.as_bytes()))
        .collect();
    node.extend(message(2, output.as_bytes()));
    node.extend(message(4, operation.as_bytes()));
    node.extend(attributes.concat());
    message(1, &node)
}

fn tensor(name: &str, kind: u64, dims: &[u64], raw: Vec<u8>) -> Vec<u8> {
    let mut tensor: Vec<u8> = dims.iter().flat_map(|&dim| number(1, dim)).collect();
    tensor.extend(
        [
            number(2, kind),
            message(8, name.as_bytes()),
            message(9, &raw),
        ]
        .concat(),
    );
    message(5, &tensor)
}

fn value(field: u64, name: &str, dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims
        .iter()
        .flat_map(|&dim| message(1, &number(1, dim)))
        .collect();
    let tensor = [number(1, FLOAT), message(2, &dims)].concat();
    message(
        field,
        &[
            message(1, name.as_bytes()),
            message(2, &message(1, &tensor)),
        ]
        .concat(),
    )
}

/// Returns a field with a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// Returns a field with bytes.
fn message(field: u64, content: &[u8]) -> Vec<u8> {
    [
        &varint(field << 3 | 2),
        &varint(content.len() as u64),
        content,
    ]
    .concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7F {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
