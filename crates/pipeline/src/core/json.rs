//! Results and options as JSON.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::core::error::PipelineError;

/// Converts a result or options to JSON.
///
/// # Errors
/// [`PipelineError::Serialize`] if the value cannot be written as JSON.
pub fn to_value(value: &impl Serialize) -> Result<Value, PipelineError> {
    // A direct conversion turns each `f32` into an `f64`, so 0.53 would be stored as 0.5299999713897705.
    Ok(serde_json::from_slice(&serde_json::to_vec(value)?)?)
}

/// Parses a stored value. Returns `Some(None)` if nothing was stored, and `None` if the value has another format.
pub(crate) fn read_back<T: DeserializeOwned>(stored: Option<Value>) -> Option<Option<T>> {
    match stored {
        None => Some(None),
        Some(value) => serde_json::from_value(value).ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_have_the_digits_of_answers() {
        let value = to_value(&[0.53_f32, 1.0, 1e-7]).unwrap();
        assert_eq!(value.to_string(), "[0.53,1.0,1e-7]");
    }
}
