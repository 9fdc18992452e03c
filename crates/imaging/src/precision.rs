//! The precision of arithmetic.

use std::fmt;

use serde::{
    Deserialize, Serialize,
    de::{
        IntoDeserializer,
        value::{self, StrDeserializer},
    },
};
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
    /// Returns the name in responses, exports and the database: `f32`, `bf16` or `f16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Returns the precision with this name.
    pub fn named(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, value::Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }
}

impl fmt::Display for NumericPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_text_and_in_json() {
        use NumericPrecision::{Bf16, F16, F32};
        for precision in [F32, Bf16, F16] {
            assert_eq!(NumericPrecision::named(precision.name()), Some(precision));
            assert_eq!(serde_json::json!(precision), precision.name());
        }
        assert_eq!(NumericPrecision::named("F32"), None);
    }
}
