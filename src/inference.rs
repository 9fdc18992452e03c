//! Models and the engines that run them.

pub mod tensor;
