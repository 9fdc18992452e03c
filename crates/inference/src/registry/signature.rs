//! Compares a loaded graph's inputs and outputs with its registry entry.

use std::fmt::{self, Display};

use super::{Batch, ModelSpec, RegistryError};
use crate::tensor::{Port, Signature};
use facescan_imaging::preprocess::Layout;

impl ModelSpec {
    /// Compares the inputs and outputs of the loaded graph with this entry.
    ///
    /// A dynamic size in the graph matches any size, except the last dimension of SCRFD's outputs, which identifies
    /// them. YuNet's outputs are identified by name, those of CenterFace by their order.
    ///
    /// # Errors
    /// Returns an error that describes the first difference: the entry's field, what it implies, and what the graph
    /// has.
    pub fn check_signature(&self, signature: &Signature) -> Result<(), RegistryError> {
        self.check_input(&signature.inputs)?;
        let outputs = &signature.outputs;
        if let Some(port) = outputs.iter().find(|port| !port.is_f32 && self.reads(port)) {
            return self.disagree(
                "family",
                "f32 outputs",
                format!("`{}` of another type", port.name),
            );
        }
        self.family.check()(self, Outputs(outputs))
    }

    /// Returns whether an output is read. One of an encoder's outputs is, and the others may have any type.
    fn reads(&self, port: &Port) -> bool {
        self.output.as_ref().is_none_or(|name| *name == port.name)
    }

    fn check_input(&self, inputs: &[Port]) -> Result<(), RegistryError> {
        let [port] = inputs else {
            return self.disagree("family", "one input", Outputs(inputs));
        };
        if let Some(name) = self.input.name.as_ref().filter(|name| **name != port.name) {
            return self.disagree(
                "input.name",
                format!("`{name}`"),
                format!("`{}`", port.name),
            );
        }
        let &[batch, second, third, last] = port.dims.as_slice() else {
            return self.disagree("family", "a 4-dimensional input", port);
        };
        let (channels, height, width) = match self.input.layout {
            Layout::Nchw => (second, third, last),
            Layout::Nhwc => (last, second, third),
        };
        if !port.is_f32 {
            return self.disagree(
                "family",
                "an f32 input",
                format!("`{}` of another type", port.name),
            );
        }
        if channels.is_some_and(|channels| channels != 3) {
            let expected = match self.input.layout {
                Layout::Nchw => "an input with 3 channels",
                Layout::Nhwc => "an input with 3 channels, the last dimension (input.layout)",
            };
            return self.disagree("family", expected, port);
        }
        self.check_batch(batch)?;
        self.check_side("input.width", self.input.width, width)?;
        self.check_side("input.height", self.input.height, height)
    }

    fn check_batch(&self, batch: Option<usize>) -> Result<(), RegistryError> {
        match (self.batch, batch) {
            (Batch::Dynamic, Some(rows)) => {
                self.disagree("batch", "`dynamic`", format!("a fixed batch of {rows}"))
            }
            (Batch::Fixed(expected), Some(rows)) if expected.get() != rows => {
                self.disagree("batch", expected, format!("a fixed batch of {rows}"))
            }
            (Batch::Dynamic | Batch::Fixed(_), _) => Ok(()),
        }
    }

    fn check_side(
        &self,
        field: &'static str,
        expected: u32,
        found: Option<usize>,
    ) -> Result<(), RegistryError> {
        match (self.input.size_multiple, found) {
            (Some(multiple), Some(fixed)) => self.disagree(
                "input.size_multiple",
                format!("any multiple of {multiple}"),
                format!("a side fixed at {fixed}"),
            ),
            (None, Some(fixed)) if fixed != expected as usize => {
                self.disagree(field, expected, fixed)
            }
            (None | Some(_), _) => Ok(()),
        }
    }

    /// Compares the length of the vectors in the graph with `dim`.
    pub(super) fn check_dim(&self, found: Option<usize>) -> Result<(), RegistryError> {
        match (self.dim, found) {
            (Some(expected), Some(found)) if expected != found => {
                self.disagree("dim", expected, found)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn disagree(
        &self,
        field: &str,
        expected: impl Display,
        found: impl Display,
    ) -> Result<(), RegistryError> {
        let reason = format!("the registry expects {expected}, the file has {found}");
        Err(RegistryError::invalid(&self.id, field, reason))
    }
}

/// The outputs of a graph.
#[derive(Clone, Copy)]
pub struct Outputs<'a>(pub &'a [Port]);

impl<'a> Outputs<'a> {
    /// Returns the output with this name.
    pub fn named(self, name: &str) -> Option<&'a Port> {
        self.0.iter().find(|port| port.name == name)
    }
}

impl Display for Outputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let all: Vec<String> = self.0.iter().map(Port::to_string).collect();
        f.write_str(&all.join(", "))
    }
}
