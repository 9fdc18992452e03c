//! The inputs and outputs of sessions.

use std::fmt;

use serde::Deserialize;

/// A dense f32 tensor in row-major order; `data.len()` is the product of `shape`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The graph's name of this input or output.
    pub name: String,
    /// Dimensions, the batch first.
    pub shape: Vec<usize>,
    /// The values.
    pub data: Vec<f32>,
}

impl Tensor {
    /// Returns the values of one row of the batch. The result is empty if the row does not exist.
    pub fn row(&self, row: usize) -> &[f32] {
        let len: usize = self.shape.iter().skip(1).product();
        self.data.get(row * len..(row + 1) * len).unwrap_or(&[])
    }
}

/// A graph's declared inputs and outputs, as a loaded session reports them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Signature {
    /// Inputs in graph order.
    pub inputs: Vec<Port>,
    /// Outputs in graph order.
    pub outputs: Vec<Port>,
}

/// One input or output of a graph.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Port {
    /// The name in the graph.
    pub name: String,
    /// Dimensions. `None` for a dynamic one.
    pub dims: Vec<Option<usize>>,
    /// Whether its elements are f32. A TorchScript program has no other ports and does not say so.
    #[serde(skip, default = "always")]
    pub is_f32: bool,
}

fn always() -> bool {
    true
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = self.dims.iter();
        let dims: Vec<_> = dims
            .map(|dim| dim.map_or_else(|| "?".to_owned(), |dim| dim.to_string()))
            .collect();
        write!(f, "`{}` [{}]", self.name, dims.join(", "))
    }
}

impl Tensor {
    /// Reshapes an output of `rows` rows to batch-first.
    ///
    /// Some graphs merge the batch into the next dimension (SCRFD returns `[cells, k]` for a batch of one), so the
    /// split uses the number of values and not the declared shape.
    pub(crate) fn into_rows(mut self, rows: usize) -> Self {
        if self.shape.first() != Some(&rows) {
            if let Some(first) = self.shape.first_mut() {
                *first /= rows.max(1);
            }
            self.shape.insert(0, rows);
        }
        self
    }
}
