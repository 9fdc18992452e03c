use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn port(name: &str, dim: usize) -> Port {
    Port {
        name: name.to_owned(),
        dims: vec![None, Some(dim)],
        is_f32: true,
    }
}

fn signature() -> Signature {
    Signature {
        inputs: Vec::new(),
        outputs: vec![port("a", 2), port("b", 1)],
    }
}

fn output(name: &str, shape: &[usize]) -> Value {
    let size: usize = shape.iter().product();
    json!({"name": name, "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": size * 4}})
}

/// Returns a correct response of two rows, with its outputs in another order than the model's.
fn head() -> Value {
    json!({
        "id": "7", "model_name": "encoder", "model_version": "1",
        "outputs": [output("b", &[2, 1]), output("a", &[2, 2])],
    })
}

const VALUES: [f32; 6] = [10.0, 20.0, 1.0, 2.0, 3.0, 4.0];

fn read(head: &Value, values: &[u8]) -> Result<Vec<Tensor>, Failure> {
    let head = head.to_string();
    InferResponse {
        head_len: Some(head.len()),
        bytes: [head.as_bytes(), values].concat().into(),
    }
    .outputs(expected(&signature()))
}

/// Returns what is wrong with a response.
fn fault(head_len: Option<usize>, bytes: impl Into<Bytes>, signature: &Signature) -> String {
    let bytes = bytes.into();
    let response = InferResponse { head_len, bytes };
    let failure = response.outputs(expected(signature)).unwrap_err();
    failure.to_string()
}

fn expected(signature: &Signature) -> ExpectedResponse<'_> {
    ExpectedResponse {
        id: "7",
        model: "encoder",
        version: Some("1"),
        rows: 2,
        signature,
    }
}

fn values() -> Vec<u8> {
    VALUES
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

#[test]
fn outputs_are_in_the_models_order_whatever_the_order_in_the_response() {
    let tensor = |name: &str, shape: [usize; 2], data: &[f32]| Tensor {
        name: name.to_owned(),
        shape: shape.to_vec(),
        data: data.to_vec(),
    };
    assert_eq!(
        read(&head(), &values()).unwrap(),
        [
            tensor("a", [2, 2], &[1.0, 2.0, 3.0, 4.0]),
            tensor("b", [2, 1], &[10.0, 20.0]),
        ]
    );
}

#[test]
fn a_response_without_a_version_is_accepted() {
    let mut head = head();
    head.as_object_mut().unwrap().remove("model_version");
    read(&head, &values()).unwrap();
}

#[test]
fn each_field_is_held_against_what_was_asked() {
    let huge = usize::MAX / 2;
    for (pointer, value, says) in [
        ("/id", json!("8"), r#"the id "8""#),
        ("/id", json!(null), r#"the id """#),
        ("/model_name", json!("other"), "the model `other`"),
        ("/model_version", json!("2"), "version 2 of the model"),
        ("/outputs", json!([]), "24 bytes follow"),
        ("/outputs/0/name", json!("c"), "`c` was not requested"),
        ("/outputs/1", output("b", &[2, 1]), "8 bytes follow"),
        ("/outputs/0/datatype", json!("FP16"), "the type FP16"),
        ("/outputs/0/shape", json!([3, 1]), "[3, 1] for 2 rows"),
        ("/outputs/0/shape", json!([2]), "[2] for 2 rows"),
        ("/outputs/0/shape", json!([2, 1, 1]), "[2, 1, 1] for 2 rows"),
        ("/outputs/0/shape", json!([2, huge]), "for 2 rows"),
        (
            "/outputs/0/shape",
            json!([-2, 1]),
            "its JSON: invalid value",
        ),
        ("/outputs/0/shape", json!([]), "[] for 2 rows"),
        (
            "/outputs/0/parameters/binary_data_size",
            json!(4),
            "to have 4 bytes",
        ),
        (
            "/outputs/0/parameters/binary_data_size",
            json!(huge),
            "bytes",
        ),
        ("/outputs/0/parameters", json!({}), "is not binary"),
    ] {
        let mut head = head();
        *head.pointer_mut(pointer).unwrap() = value;
        let told = read(&head, &values()).unwrap_err().to_string();
        assert!(told.contains(says), "{pointer}: {told}");
    }
}

#[test]
fn no_output_comes_twice() {
    let mut head = head();
    head["outputs"][1] = output("b", &[2, 1]);
    let told = read(&head, &values()[..16]).unwrap_err().to_string();
    assert!(told.contains("the outputs [b, b]"), "{told}");
}

#[test]
fn a_free_dimension_cannot_overflow_a_size() {
    let signature = Signature {
        inputs: Vec::new(),
        outputs: vec![Port {
            dims: vec![None, None, None],
            ..port("a", 0)
        }],
    };
    let mut head = head();
    head["outputs"] = json!([{
        "name": "a", "datatype": "FP32", "shape": [2, usize::MAX, usize::MAX],
        "parameters": {"binary_data_size": 8},
    }]);
    let head = head.to_string();
    let told = fault(Some(head.len()), head, &signature);
    assert!(told.contains("is to have 8 bytes"), "{told}");
}

#[test]
fn values_that_are_missing_or_too_many_are_malformed() {
    let values = values();
    for (values, says) in [
        (&values[..23], "is to have 16 bytes, and 15 are left"),
        (&values[..0], "is to have 8 bytes, and 0 are left"),
        (&[&values[..], &[0]].concat()[..], "1 bytes follow"),
    ] {
        let told = read(&head(), values).unwrap_err().to_string();
        assert!(told.contains(says), "{told}");
    }
}

#[test]
fn the_head_is_as_long_as_the_header_says() {
    let head = head().to_string();
    for (head_len, says) in [
        (None, "no binary tensors"),
        (Some(head.len() + 25), "bytes, and there are"),
        (Some(usize::MAX), "bytes, and there are"),
        (Some(head.len() - 1), "its JSON: EOF"),
        (Some(head.len() + 1), "its JSON: trailing characters"),
        (Some(0), "its JSON: EOF"),
    ] {
        let bytes = [head.as_bytes(), &[b'x'; 24]].concat();
        let told = fault(head_len, bytes, &signature());
        assert!(told.contains(says), "{head_len:?}: {told}");
    }
}

proptest! {
    #[test]
    fn no_response_makes_it_panic(
        at in 0..400usize,
        byte: u8,
        cut in 0..400usize,
        head_len in prop::option::of(0..500usize),
    ) {
        let head = head().to_string();
        let right = head.len();
        let mut bytes = [head.as_bytes(), &values()].concat();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        let response = InferResponse { head_len: head_len.or(Some(right)), bytes: bytes.into() };
        if let Ok(tensors) = response.outputs(expected(&signature())) {
            prop_assert!(tensors.iter().all(|tensor| tensor.data.len() == tensor.shape.iter().product::<usize>()));
        }
    }
}
