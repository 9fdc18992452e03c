//! Converts a server's description of a model to a signature for the registry.

use std::collections::HashSet;

use super::{
    failure::Failure,
    spec::RemoteSpec,
    wire::{FP32, ModelMetadata, TensorMetadata},
};
use crate::tensor::{Port, Signature};

/// A model as its server describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    /// Its inputs and outputs.
    pub signature: Signature,
    /// The version that responses must come from, if it is fixed.
    pub version: Option<String>,
}

/// Reads a model's metadata.
///
/// # Errors
/// Returns [`Failure::Malformed`] if the metadata describes another model, lacks the requested version, or is invalid.
pub(super) fn described(spec: &RemoteSpec, json: &[u8]) -> Result<Described, Failure> {
    let metadata: ModelMetadata = serde_json::from_slice(json)
        .map_err(|error| Failure::Malformed(format!("the model's metadata: {error}")))?;
    if metadata.name != spec.model {
        return Err(Failure::Malformed(format!(
            "the metadata of `{}` for the model `{}`",
            metadata.name, spec.model
        )));
    }
    let version = match (&spec.version, metadata.versions.as_slice()) {
        (Some(version), versions) if !versions.is_empty() && !versions.contains(version) => {
            return Err(Failure::Malformed(format!(
                "the model `{}` has no version {version}; it has {}",
                spec.model,
                versions.join(", ")
            )));
        }
        (Some(version), _) => Some(version.clone()),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    };
    Ok(Described {
        signature: Signature {
            inputs: ports("input", &metadata.inputs)?,
            outputs: ports("output", &metadata.outputs)?,
        },
        version,
    })
}

fn ports(kind: &str, tensors: &[TensorMetadata]) -> Result<Vec<Port>, Failure> {
    let mut names = HashSet::new();
    tensors
        .iter()
        .map(|tensor| {
            if !names.insert(tensor.name.as_str()) {
                return Err(Failure::Malformed(format!(
                    "the model has two {kind}s `{}`",
                    tensor.name
                )));
            }
            Ok(Port {
                name: tensor.name.clone(),
                dims: dims(kind, tensor)?,
                is_f32: tensor.datatype == FP32,
            })
        })
        .collect()
}

fn dims(kind: &str, tensor: &TensorMetadata) -> Result<Vec<Option<usize>>, Failure> {
    let dims = tensor.shape.iter().map(|&dim| match dim {
        -1 => Some(None),
        dim => usize::try_from(dim).ok().filter(|dim| *dim > 0).map(Some),
    });
    dims.collect::<Option<_>>().ok_or_else(|| {
        Failure::Malformed(format!(
            "the {kind} `{}` has the shape {:?}",
            tensor.name, tensor.shape
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(more: &str) -> RemoteSpec {
        serde_saphyr::from_str(&format!("url: http://models\nmodel: encoder\n{more}")).unwrap()
    }

    /// A response of Triton 2.51.0, see `tests/fixtures/kserve`.
    const JSON: &str = r#"{"name":"encoder","versions":["1"],"platform":"python","inputs":[{"name":"pixels","datatype":"FP32","shape":[-1,3,32,32]}],"outputs":[{"name":"embedding","datatype":"FP32","shape":[-1,51]}]}"#;

    #[test]
    fn minus_one_is_a_free_dimension() {
        let described = described(&spec(""), JSON.as_bytes()).unwrap();
        let port = |name: &str, dims: &[Option<usize>]| Port {
            name: name.to_owned(),
            dims: dims.to_vec(),
            is_f32: true,
        };
        assert_eq!(
            described,
            Described {
                signature: Signature {
                    inputs: vec![port("pixels", &[None, Some(3), Some(32), Some(32)])],
                    outputs: vec![port("embedding", &[None, Some(51)])],
                },
                version: Some("1".to_owned()),
            }
        );
    }

    #[test]
    fn other_types_are_recognized() {
        let json = JSON.replacen("FP32", "FP16", 1);
        let signature = described(&spec(""), json.as_bytes()).unwrap().signature;
        assert!(!signature.inputs[0].is_f32 && signature.outputs[0].is_f32);
    }

    #[test]
    fn the_version_is_the_one_that_is_set_or_the_only_one() {
        let two = JSON.replace(r#"["1"]"#, r#"["1","2"]"#);
        let none = JSON.replace(r#""versions":["1"],"#, "");
        for (json, more, version) in [
            (JSON, "", Some("1")),
            (&two, "", None),
            (&two, "version: '2'", Some("2")),
            (&none, "", None),
            (&none, "version: '2'", Some("2")),
        ] {
            let described = described(&spec(more), json.as_bytes()).unwrap();
            assert_eq!(described.version.as_deref(), version, "{json} {more}");
        }
    }

    #[test]
    fn what_cannot_be_is_malformed() {
        for (from, to, more, says) in [
            ("", "", "version: '3'", "no version 3; it has 1"),
            (
                "encoder",
                "detector",
                "",
                "`detector` for the model `encoder`",
            ),
            ("-1,3", "-2,3", "", "[-2, 3, 32, 32]"),
            ("-1,3", "-1,0", "", "[-1, 0, 32, 32]"),
            (
                r#"[-1,51]}]"#,
                r#"[-1,51]},{"name":"embedding","datatype":"FP32","shape":[1]}]"#,
                "",
                "two outputs `embedding`",
            ),
            (r#"[-1,51]"#, r#""wide""#, "", "metadata: invalid type"),
            ("}]}", "}]", "", "metadata: EOF"),
        ] {
            let json = JSON.replacen(from, to, 1);
            let error = described(&spec(more), json.as_bytes()).unwrap_err();
            let told = error.to_string();
            assert!(
                matches!(error, Failure::Malformed(_)) && told.contains(says),
                "{told}"
            );
        }
    }
}
