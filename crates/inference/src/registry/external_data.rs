//! Weights that a model keeps in other files. The sha256 of the registry does not cover them, so such a model is refused.
//!
//! The messages are those of [`crate::onnx`] with only the fields that lead to a tensor's data. prost skips all others without
//! a copy, so a model of any size is searched in its own bytes.

use prost::{DecodeError, Message};

/// The number of `TensorProto.DataLocation.EXTERNAL`.
const EXTERNAL: i32 = 1;

/// Returns the file of the first tensor whose data are not in the model: in initializers, attributes, subgraphs, functions or
/// training graphs.
///
/// # Errors
/// Returns an error if the bytes are not a message in the format of ONNX.
pub(super) fn first_location(model: &[u8]) -> Result<Option<String>, DecodeError> {
    Ok(Model::decode(model)?.location())
}

#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "20")]
    training: Vec<Training>,
    #[prost(message, repeated, tag = "25")]
    functions: Vec<Function>,
}

#[derive(Clone, PartialEq, Message)]
struct Training {
    #[prost(message, optional, tag = "1")]
    initialization: Option<Graph>,
    #[prost(message, optional, tag = "2")]
    algorithm: Option<Graph>,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(message, repeated, tag = "7")]
    nodes: Vec<Node>,
    #[prost(message, repeated, tag = "11")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    initializers: Vec<Tensor>,
    #[prost(message, repeated, tag = "15")]
    sparse_initializers: Vec<SparseTensor>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(message, repeated, tag = "5")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(message, optional, tag = "5")]
    tensor: Option<Tensor>,
    #[prost(message, optional, boxed, tag = "6")]
    graph: Option<Box<Graph>>,
    #[prost(message, repeated, tag = "10")]
    tensors: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    graphs: Vec<Graph>,
    #[prost(message, optional, tag = "22")]
    sparse_tensor: Option<SparseTensor>,
    #[prost(message, repeated, tag = "23")]
    sparse_tensors: Vec<SparseTensor>,
}

#[derive(Clone, PartialEq, Message)]
struct SparseTensor {
    #[prost(message, optional, tag = "1")]
    values: Option<Tensor>,
    #[prost(message, optional, tag = "2")]
    indices: Option<Tensor>,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(message, repeated, tag = "13")]
    external_data: Vec<Entry>,
    #[prost(int32, optional, tag = "14")]
    data_location: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, optional, tag = "1")]
    key: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// A message that can have tensors.
trait HasTensors {
    /// Returns the file of the first tensor whose data are elsewhere.
    fn location(&self) -> Option<String>;
}

impl<T: HasTensors> HasTensors for Vec<T> {
    fn location(&self) -> Option<String> {
        self.iter().find_map(T::location)
    }
}

impl<T: HasTensors> HasTensors for Option<T> {
    fn location(&self) -> Option<String> {
        self.as_ref()?.location()
    }
}

impl<T: HasTensors> HasTensors for Box<T> {
    fn location(&self) -> Option<String> {
        self.as_ref().location()
    }
}

/// Searches the fields of a message in order. Destructuring makes the compiler find a field that is left out.
macro_rules! search {
    ($($message:ident { $($field:ident),+ })+) => {
        $(
            impl HasTensors for $message {
                fn location(&self) -> Option<String> {
                    let Self { $($field),+ } = self;
                    None$(.or_else(|| $field.location()))+
                }
            }
        )+
    };
}

search! {
    Model { graph, training, functions }
    Training { initialization, algorithm }
    Function { nodes, attributes }
    Graph { nodes, initializers, sparse_initializers }
    Node { attributes }
    Attribute { tensor, graph, tensors, graphs, sparse_tensor, sparse_tensors }
    SparseTensor { values, indices }
}

impl HasTensors for Tensor {
    fn location(&self) -> Option<String> {
        let is_elsewhere = self.data_location == Some(EXTERNAL) || !self.external_data.is_empty();
        is_elsewhere.then(|| {
            let entry = self
                .external_data
                .iter()
                .find(|entry| entry.key.as_deref() == Some("location"));
            entry
                .and_then(|entry| entry.value.clone())
                .unwrap_or_default()
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::onnx::{
        AttributeProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto,
    };

    fn external() -> TensorProto {
        TensorProto {
            data_location: Some(EXTERNAL),
            external_data: vec![StringStringEntryProto {
                key: Some("location".into()),
                value: Some("w.bin".into()),
            }],
            ..TensorProto::default()
        }
    }

    fn node(attribute: AttributeProto) -> NodeProto {
        NodeProto {
            attribute: vec![attribute],
            ..NodeProto::default()
        }
    }

    fn graph(attribute: AttributeProto) -> GraphProto {
        GraphProto {
            node: vec![node(attribute)],
            ..GraphProto::default()
        }
    }

    fn constant() -> AttributeProto {
        AttributeProto {
            t: Some(external()),
            ..AttributeProto::default()
        }
    }

    fn model(graph: GraphProto) -> ModelProto {
        ModelProto {
            graph: Some(graph),
            ..ModelProto::default()
        }
    }

    fn with_initializer(tensor: TensorProto) -> ModelProto {
        model(GraphProto {
            initializer: vec![tensor],
            ..GraphProto::default()
        })
    }

    /// Returns a file whose weights are in `w.bin`.
    pub fn file_without_weights() -> Vec<u8> {
        with_initializer(external()).encode_to_vec()
    }

    /// Returns a message that has another one in the field `tag`, as bytes.
    fn message(tag: u8, inner: impl Message) -> Vec<u8> {
        [vec![tag << 3 | 2], inner.encode_length_delimited_to_vec()].concat()
    }

    /// Returns an attribute for each field that can have a tensor.
    fn attributes() -> Vec<AttributeProto> {
        let [values, indices] = [1, 2].map(|tag| message(tag, external()));
        vec![
            constant(),
            AttributeProto {
                tensors: vec![TensorProto::default(), external()],
                ..AttributeProto::default()
            },
            AttributeProto {
                g: Some(Box::new(graph(constant()))),
                ..AttributeProto::default()
            },
            AttributeProto {
                graphs: vec![GraphProto::default(), graph(constant())],
                ..AttributeProto::default()
            },
            AttributeProto {
                sparse_tensor: Some(indices),
                ..AttributeProto::default()
            },
            AttributeProto {
                sparse_tensors: vec![values],
                ..AttributeProto::default()
            },
        ]
    }

    #[test]
    fn external_data_is_found_wherever_a_model_can_have_a_tensor() {
        let function = |function| ModelProto {
            functions: vec![function],
            ..ModelProto::default()
        };
        let mut models: Vec<_> = attributes().into_iter().map(graph).map(model).collect();
        models.extend([
            with_initializer(external()),
            model(GraphProto {
                sparse_initializer: vec![message(2, external())],
                ..GraphProto::default()
            }),
            // The nodes of a function, and the defaults of its attributes.
            function(message(7, node(constant()))),
            function(message(11, constant())),
            ModelProto {
                training_info: vec![message(2, graph(constant()))],
                ..ModelProto::default()
            },
        ]);
        for model in models {
            let found = first_location(&model.encode_to_vec()).unwrap();
            assert_eq!(found.as_deref(), Some("w.bin"), "{model:?}");
        }
    }

    #[test]
    fn either_mark_of_external_data_is_enough() {
        let marked = TensorProto {
            external_data: Vec::new(),
            ..external()
        };
        let located = TensorProto {
            data_location: None,
            ..external()
        };
        for (tensor, location) in [(marked, ""), (located, "w.bin")] {
            let model = with_initializer(tensor).encode_to_vec();
            let found = first_location(&model).unwrap();
            assert_eq!(found.as_deref(), Some(location));
        }
    }

    #[test]
    fn a_model_with_all_its_weights_has_no_external_data() {
        let inside = TensorProto {
            raw_data: Some(vec![1; 64]),
            data_location: Some(0),
            ..TensorProto::default()
        };
        let model = model(GraphProto {
            initializer: vec![inside],
            ..graph(AttributeProto::default())
        });
        assert_eq!(first_location(&model.encode_to_vec()).unwrap(), None);
    }
}
