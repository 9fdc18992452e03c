use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::onnx::{
    AttributeProto, Dimension, ModelProto, NodeProto, TensorProto, ValueInfoProto, data_type,
};

fn value(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dims = dims.iter().map(|&dim| Dimension::fixed(dim)).collect();
    ValueInfoProto::new(name, data_type::FLOAT, dims)
}

fn floats(name: &str, dims: &[usize], values: &[f32]) -> TensorProto {
    let (dims, values) = (dims.to_vec(), values.to_vec());
    initializer::Constant { dims, values }.to_tensor(name)
}

/// Returns a graph with a quantized 2×2 weight behind a Reshape, a PRelu, a Reshape to `[1, −1, 2]`, an input that has
/// an initializer and an input that nothing reads.
fn model() -> ModelProto {
    let mut dequantize = NodeProto::new("DequantizeLinear", &["q", "s", "z"], "w0");
    dequantize.attribute = vec![
        AttributeProto::from_integer("axis", 1),
        AttributeProto::from_integer("block_size", 2),
    ];
    let graph = GraphProto {
        node: vec![
            dequantize,
            NodeProto::new("Reshape", &["w0", "w_shape"], "w"),
            NodeProto::new("Mul", &["x", "w"], "m"),
            NodeProto::new("PRelu", &["m", "slope"], "p"),
            NodeProto::new("Reshape", &["p", "out_shape"], "y"),
        ],
        initializer: vec![
            TensorProto::from_raw("q", data_type::INT8, &[1, 4], vec![1, 2, 0xff, 0x80]),
            floats("s", &[1, 2], &[0.5, 2.0]),
            TensorProto::from_raw("z", data_type::INT8, &[1, 2], vec![0, 1]),
            initializer::integer_tensor("w_shape", &[2, 2]),
            floats("slope", &[1, 1, 1], &[0.25]),
            initializer::integer_tensor("out_shape", &[1, -1, 2]),
        ],
        input: vec![
            value("x", &[1, 3, 2, 2]),
            value("slope", &[1, 1, 1]),
            value("nobody", &[1]),
        ],
        output: vec![value("y", &[1, 6, 2])],
        value_info: vec![value("m", &[1, 3, 2, 2])],
        ..Default::default()
    };
    ModelProto {
        ir_version: Some(6),
        producer_name: Some("a test".into()),
        graph: Some(graph),
        ..Default::default()
    }
}

fn rewritten(recipe: Recipe) -> GraphProto {
    let bytes = rewrite(&model().encode_to_vec(), recipe).unwrap();
    let model = onnx::decode(&bytes).unwrap();
    assert_eq!(model.producer_name(), "a test");
    model.graph.unwrap()
}

fn ops(graph: &GraphProto) -> Vec<&str> {
    graph.node.iter().map(|node| node.op_type()).collect()
}

fn constants(graph: &GraphProto) -> HashMap<&str, Vec<f32>> {
    graph
        .initializer
        .iter()
        .filter(|tensor| tensor.data_type() == data_type::FLOAT)
        .map(|tensor| {
            (
                tensor.name(),
                initializer::Constant::read(tensor).unwrap().values,
            )
        })
        .collect()
}

fn names(values: &[ValueInfoProto]) -> Vec<&str> {
    values.iter().map(|value| value.name()).collect()
}

fn shape(value: &ValueInfoProto) -> Vec<String> {
    let tensor = value.r#type.as_ref().unwrap().tensor_type.as_ref().unwrap();
    let dims = &tensor.shape.as_ref().unwrap().dim;
    dims.iter()
        .map(|dim| match dim.dim_value {
            Some(value) => value.to_string(),
            None => dim.dim_param().to_owned(),
        })
        .collect()
}

#[test]
fn a_detector_gets_plain_weights_and_a_free_size() {
    let graph = rewritten(Recipe::Yunet);
    assert_eq!(ops(&graph), ["Mul", "PRelu", "Reshape"]);
    // (q − z)·s in blocks of two: 1·½, 2·½, (−1 − 1)·2, (−128 − 1)·2.
    assert_eq!(constants(&graph)["w"], [0.5, 1.0, -4.0, -258.0]);
    assert_eq!(
        graph
            .initializer
            .iter()
            .find(|t| t.name() == "w")
            .unwrap()
            .dims,
        [2, 2]
    );
    assert_eq!(names(&graph.input), ["x"]);
    assert_eq!(shape(&graph.input[0]), ["N", "3", "H", "W"]);
    assert_eq!(shape(&graph.output[0]), ["y_0", "y_1", "2"]);
    assert!(graph.value_info.is_empty());
    let kept = graph
        .initializer
        .iter()
        .find(|t| t.name() == graph.node[2].input[1]);
    assert_eq!(initializer::integers(kept.unwrap()).unwrap(), [0, -1, 2]);
    assert_eq!(
        graph.initializer.len(),
        3,
        "the quantized constants are gone"
    );
}

#[test]
fn an_embedder_keeps_its_size_and_loses_its_prelu() {
    let graph = rewritten(Recipe::Sface);
    assert_eq!(ops(&graph), ["Mul", "Relu", "Mul", "Mul", "Add", "Reshape"]);
    assert_eq!(shape(&graph.input[0]), ["N", "3", "2", "2"]);
    assert_eq!(shape(&graph.output[0]), ["y_0", "6", "2"]);
    // Relu(x)·0.75 + x·0.25, connected by name.
    let [relu, above, below, add] = &graph.node[1..5] else {
        panic!("five operations");
    };
    assert_eq!(
        (&relu.input[0], &above.input[0]),
        (&"m".to_owned(), &relu.output[0])
    );
    assert_eq!(constants(&graph)[above.input[1].as_str()], [0.75]);
    assert_eq!(below.input[0], "m");
    assert_eq!(constants(&graph)[below.input[1].as_str()], [0.25]);
    assert_eq!(
        add.input,
        [below.output[0].clone(), above.output[0].clone()]
    );
    assert_eq!(add.output, ["p"]);
}

#[test]
fn rewriting_gives_the_same_bytes_each_time() {
    let bytes = model().encode_to_vec();
    for recipe in [Recipe::Yunet, Recipe::Sface, Recipe::Centerface] {
        assert_eq!(
            rewrite(&bytes, recipe).unwrap(),
            rewrite(&bytes, recipe).unwrap()
        );
    }
}

#[test]
fn what_a_recipe_cannot_do_is_an_error() {
    type Change = fn(&mut GraphProto);
    let changes: [(Change, &str); 8] = [
        (
            |graph| graph.initializer[1].dims = vec![7],
            "constant `s` holds 2 values",
        ),
        (
            |graph| graph.initializer[0].data_type = Some(99),
            "constant `q` has data type 99",
        ),
        (
            |graph| graph.node[0].input.truncate(2),
            "it needs data, a scale and a zero point",
        ),
        (
            |graph| graph.node[0].attribute.truncate(1),
            "it needs an axis from 0 and a block size",
        ),
        (
            |graph| graph.node[0].attribute[1].i = Some(1),
            "its scale does not fit its data",
        ),
        (
            |graph| graph.node[0].attribute[0].i = Some(0),
            "its axis is not the last of its data",
        ),
        (
            |graph| graph.input[0].r#type = None,
            "the first input has no shape",
        ),
        (
            |graph| graph.node[0].attribute[0].g = Some(Box::default()),
            "has an inner graph",
        ),
    ];
    for (change, says) in changes {
        let mut model = model();
        change(model.graph.as_mut().unwrap());
        let error = rewrite(&model.encode_to_vec(), Recipe::Yunet).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    assert!(matches!(
        rewrite(b"no model", Recipe::Sface),
        Err(PrepareError::Onnx(_))
    ));
    assert!(matches!(
        rewrite(b"", Recipe::Sface),
        Err(PrepareError::Graph(_))
    ));
}

proptest! {
    /// A damaged file is an error or another graph, never a panic.
    #[test]
    fn damage_does_not_panic(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = model().encode_to_vec();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        for recipe in [Recipe::Yunet, Recipe::Sface, Recipe::Centerface] {
            if let Ok(rewritten) = rewrite(&bytes, recipe) {
                prop_assert!(onnx::decode(&rewritten).is_ok());
            }
        }
    }
}
