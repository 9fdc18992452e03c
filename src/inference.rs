//! Models and the engines that run them.

mod onnx;
pub mod prepare;
pub mod registry;
pub mod tensor;
