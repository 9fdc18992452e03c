//! Compares a loaded graph's inputs and outputs with its registry entry.

use super::{Batch, Family, ModelSpec, RegistryError};
use crate::tensor::{Port, Signature};
use facescan_imaging::preprocess::Layout;

impl ModelSpec {
    /// Compares the inputs and outputs of the loaded graph with this entry.
    ///
    /// A dynamic size in the graph matches any size, except the last dimension of SCRFD's outputs, which identifies
    /// them. YuNet's outputs are identified by name, those of CenterFace by their order.
    ///
    /// # Errors
    /// The first difference, with the entry's field, what it implies and what the graph has.
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
        match self.family {
            Family::Yunet => self.check_yunet(outputs),
            Family::Scrfd => self.check_scrfd(outputs),
            Family::Centerface => self.check_centerface(outputs),
            Family::Sface | Family::Arcface => self.check_embedder(outputs),
            Family::Image => self.check_encoder(outputs),
        }
    }

    /// Returns whether an output is read. One of an encoder's outputs is, and the others may have any type.
    fn reads(&self, port: &Port) -> bool {
        self.output.as_ref().is_none_or(|name| *name == port.name)
    }

    fn check_input(&self, inputs: &[Port]) -> Result<(), RegistryError> {
        let [port] = inputs else {
            return self.disagree("family", "one input", listed(inputs));
        };
        if let Some(name) = self.input.name.as_ref().filter(|name| **name != port.name) {
            return self.disagree(
                "input.name",
                format!("`{name}`"),
                format!("`{}`", port.name),
            );
        }
        let &[batch, second, third, last] = port.dims.as_slice() else {
            return self.disagree("family", "a 4-dimensional input", described(port));
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
            return self.disagree("family", expected, described(port));
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
            (Batch::Fixed(expected), Some(rows)) if expected.get() != rows => self.disagree(
                "batch",
                expected.to_string(),
                format!("a fixed batch of {rows}"),
            ),
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
                self.disagree(field, expected.to_string(), fixed.to_string())
            }
            (None | Some(_), _) => Ok(()),
        }
    }

    fn check_yunet(&self, outputs: &[Port]) -> Result<(), RegistryError> {
        for (kind, values) in [("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)] {
            for stride in [8, 16, 32] {
                let name = format!("{kind}_{stride}");
                let expected = format!("an output `{name}` of shape [N, cells, {values}]");
                let Some(port) = outputs.iter().find(|port| port.name == name) else {
                    return self.disagree("family", expected, listed(outputs));
                };
                if port.dims.len() != 3 || !last_fits(port, values) {
                    return self.disagree("family", expected, described(port));
                }
            }
        }
        Ok(())
    }

    fn check_scrfd(&self, outputs: &[Port]) -> Result<(), RegistryError> {
        let expected = "3 outputs each of last dimension 1, 4 and, with points, 10";
        let count = |values: usize| {
            outputs
                .iter()
                .filter(|port| {
                    matches!(port.dims.len(), 2 | 3) && port.dims.last() == Some(&Some(values))
                })
                .count()
        };
        match (outputs.len(), count(1), count(4), count(10)) {
            (6, 3, 3, 0) | (9, 3, 3, 3) => Ok(()),
            _ => self.disagree("family", expected, listed(outputs)),
        }
    }

    fn check_centerface(&self, outputs: &[Port]) -> Result<(), RegistryError> {
        let expected = "4 outputs with 1, 2, 2 and 10 channels";
        let fits = |(port, channels): (&Port, usize)| {
            port.dims.len() == 4 && port.dims[1].is_none_or(|found| found == channels)
        };
        if outputs.len() == 4 && outputs.iter().zip([1, 2, 2, 10]).all(fits) {
            Ok(())
        } else {
            self.disagree("family", expected, listed(outputs))
        }
    }

    fn check_embedder(&self, outputs: &[Port]) -> Result<(), RegistryError> {
        let [port] = outputs else {
            return self.disagree("family", "one output", listed(outputs));
        };
        // Stock ArcFace files declare one output row for any batch size, so the first dimension is not compared.
        let &[_, found] = port.dims.as_slice() else {
            return self.disagree("family", "an output of shape [N, dim]", described(port));
        };
        match (self.dim, found) {
            (Some(expected), Some(found)) if expected != found => {
                self.disagree("dim", expected.to_string(), found.to_string())
            }
            _ => Ok(()),
        }
    }

    fn check_encoder(&self, outputs: &[Port]) -> Result<(), RegistryError> {
        let port = match (&self.output, outputs) {
            (Some(name), _) => outputs.iter().find(|port| port.name == *name),
            (None, [port]) => Some(port),
            (None, _) => None,
        };
        let Some(port) = port else {
            let expected = match &self.output {
                Some(name) => format!("an output `{name}`"),
                None => "one output, or the name of one of several".to_owned(),
            };
            return self.disagree("output", expected, listed(outputs));
        };
        // Pooled features may have trailing dimensions of 1 after the vector.
        let of_one = |dims: &[Option<usize>]| dims.iter().all(|dim| dim.is_none_or(|dim| dim == 1));
        let vector = match (self.pooling, port.dims.as_slice()) {
            (Some(_), &[_, _, vector]) => vector,
            (Some(pooling), _) => {
                let expected = format!("{}, of an output [N, tokens, dim]", pooling.name());
                return self.disagree("pooling", expected, described(port));
            }
            (None, &[_, vector, ref rest @ ..]) if of_one(rest) => vector,
            (None, _) => {
                let expected = "an output [N, dim], or a pooling for one of [N, tokens, dim]";
                return self.disagree("output", expected, described(port));
            }
        };
        match (self.dim, vector) {
            (Some(expected), Some(found)) if expected != found => {
                self.disagree("dim", expected.to_string(), found.to_string())
            }
            _ => Ok(()),
        }
    }

    fn disagree(
        &self,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Result<(), RegistryError> {
        Err(RegistryError::Signature {
            model: self.id.clone(),
            field,
            expected: expected.into(),
            found: found.into(),
        })
    }
}

fn last_fits(port: &Port, values: usize) -> bool {
    matches!(port.dims.last(), Some(last) if last.is_none_or(|last| last == values))
}

fn listed(ports: &[Port]) -> String {
    let all: Vec<String> = ports.iter().map(described).collect();
    match all.as_slice() {
        [] => "none".into(),
        all => all.join(", "),
    }
}

fn described(port: &Port) -> String {
    let dims: Vec<String> = port
        .dims
        .iter()
        .map(|dim| dim.map_or_else(|| "?".into(), |dim| dim.to_string()))
        .collect();
    format!("`{}` [{}]", port.name, dims.join(", "))
}
