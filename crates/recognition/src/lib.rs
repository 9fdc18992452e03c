//! Recognition: whether two faces show the same person, and how often such an answer is wrong.
//!
//! [`calibration`] has the error rates of an embedder. [`verify`] compares two faces. [`collections`] has enrolled people and
//! searches for them, through an [`index`]. [`libraries`] groups faces into people. `docs/recognition.md` explains the figures.

#![warn(unreachable_pub)]

pub mod calibration;
pub mod collections;
pub mod error;
pub mod index;
pub mod libraries;
mod side;
pub mod verify;
