//! Sessions of built-in graphs. Unlike models, they have several named inputs of several types.

use std::{borrow::Cow, collections::BTreeMap};

use crate::backend::BackendError;

/// An ONNX file that this crate builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphModel {
    /// The name in errors and logs.
    pub name: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
}

/// A loaded graph. One thread owns it, so `run` takes `&mut self`.
pub trait GraphSession: Send {
    /// Runs the graph on all its inputs, in any order. Returns every output in graph order.
    ///
    /// # Errors
    /// Returns [`BackendError::Run`] if an input is missing or does not fit, or if the runtime fails.
    fn run(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>, BackendError>;

    /// Returns the number of the graph's nodes on each provider, by the runtime's names. The result is empty if the
    /// runtime does not report it.
    fn assignment(&self) -> BTreeMap<String, usize> {
        BTreeMap::new()
    }
}

/// A value for one input of a graph, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Input<'a> {
    /// The graph's name of the input.
    pub name: &'static str,
    /// Its dimensions, whose product is the number of values.
    pub shape: Vec<usize>,
    /// Its values.
    pub values: Values<'a>,
}

/// The values of an input.
#[derive(Clone, Debug, PartialEq)]
pub enum Values<'a> {
    /// Bytes, such as the samples of an image.
    U8(Cow<'a, [u8]>),
    /// Indices.
    I32(Cow<'a, [i32]>),
    /// Floats.
    F32(Cow<'a, [f32]>),
}

impl<'a> Input<'a> {
    /// Creates an input of bytes.
    pub fn u8(name: &'static str, shape: &[usize], values: impl Into<Cow<'a, [u8]>>) -> Self {
        Self::new(name, shape, Values::U8(values.into()))
    }

    /// Creates an input of indices.
    pub fn i32(name: &'static str, shape: &[usize], values: impl Into<Cow<'a, [i32]>>) -> Self {
        Self::new(name, shape, Values::I32(values.into()))
    }

    /// Creates an input of floats.
    pub fn f32(name: &'static str, shape: &[usize], values: impl Into<Cow<'a, [f32]>>) -> Self {
        Self::new(name, shape, Values::F32(values.into()))
    }

    fn new(name: &'static str, shape: &[usize], values: Values<'a>) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            values,
        }
    }
}

/// An output of a graph, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values.
    pub samples: Samples,
}

/// The values of an output.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    /// Bytes, such as the samples of an image.
    U8(Vec<u8>),
    /// Floats.
    F32(Vec<f32>),
}
