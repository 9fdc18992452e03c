//! The precision of arithmetic.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

/// The precision in which a model computed its outputs.
///
/// This is the precision of the arithmetic, not of the values: vectors are always kept as 32-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NumericPrecision {
    /// 32-bit floats: 24 significant bits.
    F32,
    /// Brain floats: 16 bits, of which 8 are significant.
    Bf16,
    /// 16-bit floats (IEEE 754): 11 significant bits.
    F16,
}

impl NumericPrecision {
    /// Every precision.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// Returns the name in responses, exports and the database: `f32`, `bf16` or `f16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

impl fmt::Display for NumericPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of parsing a text that names no precision.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a precision; use f32, bf16 or f16")]
pub struct UnknownPrecision(String);

impl FromStr for NumericPrecision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, UnknownPrecision> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == name)
            .ok_or_else(|| UnknownPrecision(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_text_and_in_json() {
        for precision in NumericPrecision::ALL {
            assert_eq!(precision.name().parse(), Ok(precision));
            let json = serde_json::to_value(precision).unwrap();
            assert_eq!(json, precision.name());
        }
        assert!("F32".parse::<NumericPrecision>().is_err());
    }
}
